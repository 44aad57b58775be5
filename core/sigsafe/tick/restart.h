// SPDX-License-Identifier: Apache-2.0
// System calls that our signal cut short. The ticker looks before it signals, but a thread may
// enter a call in between; poll, nanosleep and their kin are never restarted by the kernel after a
// handler, so the handler itself puts them back.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

#include "sigsafe/base/context.h"
#include "sigsafe/base/resume.h"
#include "sigsafe/base/state.h"

// True when the thread was in the kernel for a system call: pc stands right behind the instruction
// that made it.
bool fm_sig_is_after_syscall(uint64_t pc);

// Where the agent's syscall() stands behind its call, whose number is at the stack pointer - 8; 0 =
// there is none.
extern uintptr_t fm_sig_own_syscall;

// The number of the system call that was interrupted; -1 when neither the code before it nor its
// caller's frame tells.
int32_t fm_sig_syscall_number(struct fm_sig_thread *t, const ucontext_t *uc);

// If the interrupted call returned EINTR and can be made again without harm, sets uc to make it
// again; if it wrote only a part because of us, sets uc to write the rest first. The thread was
// running some microseconds ago, so a relative timeout that starts anew is late by no more than
// that. t may be NULL (a thread that got no slot).
bool fm_sig_restart_syscall(struct fm_sig_thread *t, ucontext_t *uc);
