// SPDX-License-Identifier: Apache-2.0
// Zones, marks and plots of C and C++ code (include/fathom.h), which finds the table here at run
// time.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/trace.h"

// Zones are written by any thread, with and without a GIL. A capture that ends must not take the
// ring away from under one of them, and an atomic counter for all threads would double the cost of
// a zone. So each thread says in its own line of memory that it writes (is_writing), and only then
// looks whether it may: whether its ring is of this generation. Who ends a capture begins another
// one, makes all CPUs see it (membarrier), and then waits for those lines.
struct fm_trace_thread *fm_zone_enter_first(void);

static inline void fm_zone_leave(struct fm_trace_thread *t)
{
	// Release: the event is written before the line says so.
	atomic_store_explicit(&t->is_writing, 0, memory_order_release);
}

// This thread's ring, which stays until fm_zone_leave(); NULL when nobody records.
static inline struct fm_trace_thread *fm_zone_enter(void)
{
	struct fm_trace_thread *t = fm_trace_own.thread;
	if (FM_UNLIKELY(!t))
		return fm_zone_enter_first();
	atomic_store_explicit(&t->is_writing, 1, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst); // the other half of the fence is membarrier
	if (FM_LIKELY(fm_trace_own.generation == atomic_load_explicit(&fm_trace.generation, memory_order_acquire)))
		return t;
	fm_zone_leave(t);
	return fm_zone_enter_first();
}

// Shows the table to a library that looked for it before the agent was there.
void fm_zone_api_offer(uintptr_t start, uintptr_t end, uintptr_t bias);

// True while a thread is between fm_zone_enter() and fm_zone_leave(). Asked after is_recording is
// 0.
bool fm_zone_api_is_busy(void);
