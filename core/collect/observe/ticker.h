// SPDX-License-Identifier: Apache-2.0
// The ticker engine: a thread of the collector that, on a jittered schedule, signals every thread
// of the target that runs at that moment. It lives here and not in the target, so that the target
// has no thread it did not start (docs/decisions/0001).
//
// A thread is signalled only when the kernel says it is running; one that waits is left alone, so
// poll, sleep and their kin are not cut short (what slips through between look and signal is put
// back by sigsafe/tick/x86_restart.c).
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "collect/registry/registry.h"

// What a signal costs the target besides the handler: entering and leaving the kernel; and filling
// the caches again, where the ticker took it the CPU.
#define FM_TICKER_DELIVERY_NS 2000.0
#define FM_TICKER_COLD_NS 40000.0

struct fm_ticker;

struct fm_ticker_options {
	uint32_t rate_hz;
	double max_overhead; // share of the target's CPU time that handlers may take, e.g. 0.05
};

struct fm_ticker_stats {
	uint64_t n_ticks;           // times the schedule came round
	uint64_t n_signals;         // signals sent
	uint64_t n_crowded;         // of them to threads that the ticker had taken the CPU
	uint64_t n_late;            // ticks more than a period late
	uint32_t n_blocked_threads; // threads seen that block the signal
	uint32_t n_perf_lost;       // processes that closed their perf event, and got ticks from then on
	uint32_t lowest_rate_hz;    // below rate_hz when max_overhead bit
	uint64_t cpu_ns;            // the ticker's own CPU time
};

FM_MUST_CHECK enum fm_err fm_ticker_start(struct fm_registry *registry, const struct fm_ticker_options *options,
					  struct fm_ticker **ret, struct fm_diag *diag);
// How long no thread was seen running, 0 for a moment. Says nothing of the engine perf, which needs
// no looks.
uint64_t fm_ticker_idle_ns(const struct fm_ticker *ticker, uint64_t now_ns);
// Stops the thread, fills the stats, frees.
void fm_ticker_stop(struct fm_ticker *ticker, struct fm_ticker_stats *ret);
