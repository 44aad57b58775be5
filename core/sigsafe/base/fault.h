// SPDX-License-Identifier: Apache-2.0
// Faults of the reads in read.h. The processor's fault becomes SIGSEGV or SIGBUS; when it was
// raised by a load of ours, which its address tells, the thread goes on at that load's fix-up.
// Every other fault is the program's (handlers.c).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

// True when uc stands at a load of read.h; then it goes on at the fix-up.
bool fm_sig_fault(ucontext_t *uc);

// What walking takes of a stack, below who begins it.
#define FM_SIG_WALK_BYTES 3072u

// Learns whether a fault in this thread would come to us, for the reads that follow: our handlers
// are the kernel's, neither signal is blocked, and there is room for one more signal frame. uc: of
// the handler that is about to read; NULL in a hook, which has to ask the kernel for what it tells.
void fm_sig_fault_check(const ucontext_t *uc);

// What is left below the caller on the signal stack that it runs on; SIZE_MAX when it runs on none.
size_t fm_sig_room(const ucontext_t *uc);

// Set where the agent installs its handlers: their address (0 = not installed), and what the
// kernel's part of a signal frame takes.
extern uintptr_t fm_sig_fault_handler;
extern size_t fm_sig_frame_bytes;

#ifdef FM_INJECT_FAULTS
// The nth read of each thread faults, and every nth after it; 0 = none does.
extern uint32_t fm_sig_inject_nth;
#endif
