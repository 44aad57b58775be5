// SPDX-License-Identifier: Apache-2.0
// A slot in shared memory for the calling thread.
#pragma once

#include <stdint.h>

#include "sigsafe/base/state.h"

// The calling thread's memory, with a slot claimed at first use; NULL when all slots are taken.
// Signals are blocked: a tick in the middle of this would claim another one.
struct fm_sig_thread *fm_sig_thread_get(void);
// The same where signals are not blocked.
struct fm_sig_thread *fm_sig_thread_get_in_hook(void);

// Threads that were there when a late capture began, with the CPU time they had used; filled before
// its first sample, then constant.
#define FM_SIG_N_EARLIER 1024
struct fm_sig_earlier {
	uint64_t cpu_ns;
	uint32_t tid;
};
extern struct fm_sig_earlier fm_sig_earlier[FM_SIG_N_EARLIER];
extern uint32_t fm_sig_n_earlier;
