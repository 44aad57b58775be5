// SPDX-License-Identifier: Apache-2.0
// A capture of regions: samples stand for CPU time between enable() and disable() only. Outside
// ticks are answered, but take nothing down.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sigsafe/base/state.h"

extern _Atomic bool fm_sig_is_outside;

static inline bool fm_sig_region_is_outside(void)
{
	return atomic_load_explicit(&fm_sig_is_outside, memory_order_relaxed);
}

// Leaves out the CPU time that the thread used since it last answered. cpu_ns: now.
void fm_sig_region_leave_out(struct fm_sig_thread *t, uint64_t cpu_ns);
// The calling thread enters a region, or leaves it. Its own time is cut to the nanosecond, that of
// others at their next tick. Not for signal handlers.
void fm_sig_region_set(bool is_outside);
