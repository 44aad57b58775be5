// SPDX-License-Identifier: Apache-2.0
// --memory-log: every event of exact mode, told to the collector as well. Times are given under the
// lock of the sums and never twice, so that who replays the events in their order comes to the same
// peaks.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "sigsafe/memory/blocks.h"
#include "sigsafe/base/state.h"

// Still wanted: the collector takes it back when the file has grown to its limit.
static inline bool fm_sig_log_is_on(void)
{
	return FM_UNLIKELY(fm_sig_log_ids != NULL) &&
	       atomic_load_explicit(&fm_sig.header->memory_log, memory_order_relaxed) != 0;
}

// One event of a block. A full ring makes the program wait for the collector, a second at most;
// after that events are lost, and counted.
void fm_sig_log_born(struct fm_sig_thread *t, uint64_t id, uint64_t time_ns, uint64_t size, uint32_t site);
void fm_sig_log_died(struct fm_sig_thread *t, uint64_t id, uint64_t time_ns);
