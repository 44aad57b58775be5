// System calls that our signal cut short. The ticker looks before it signals, but a thread may enter a call in between; poll,
// nanosleep and their kin are never restarted by the kernel after a handler, so the handler itself puts them back.
#pragma once

#include <stdbool.h>
#include <ucontext.h>

#include "sigsafe/state.h"

static inline uint64_t fm_sig_context_pc(const ucontext_t *uc)
{
#if defined(__x86_64__)
	return (uint64_t)uc->uc_mcontext.gregs[REG_RIP];
#else
	return uc->uc_mcontext.pc;
#endif
}

// True when the thread was in the kernel for a system call: pc stands right behind the instruction that made it.
bool fm_sig_is_after_syscall(struct fm_sig_thread *t, uint64_t pc);

// The number of the call behind whose instruction pc stands, read off the instruction before it; -1 when that does not tell.
int32_t fm_sig_syscall_number(struct fm_sig_thread *t, uint64_t pc);

// If the interrupted call returned EINTR and can be made again without harm, sets uc to make it again. The thread was running
// some microseconds ago, so a relative timeout that starts anew is late by no more than that.
bool fm_sig_restart_syscall(struct fm_sig_thread *t, ucontext_t *uc);
