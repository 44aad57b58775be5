// SPDX-License-Identifier: Apache-2.0
// When the next tick is due: by the rate that was asked for, by what samples cost, and by chance.
#include <math.h>

#include "base/random.h"
#include "collect/observe/ticker_parts.h"

#define BUDGET_SAMPLES 20 // fewer say nothing
// What ticks cost the caches makes them rarer down to this, where it moves no figure by more than
// some per cent.
#define COLD_PERIOD_NS 1000000u

uint64_t fm_ticker_affordable_period_ns(struct fm_ticker *k, double cycles_per_ns)
{
	uint64_t n_signals = k->stats.n_signals - k->n_signals_seen, n_crowded = k->stats.n_crowded - k->n_crowded_seen;
	double crowded = n_signals ? (double)n_crowded / (double)n_signals : 0;
	k->n_signals_seen = k->stats.n_signals;
	k->n_crowded_seen = k->stats.n_crowded;
	struct fm_cost window = { 0 };
	for (uint32_t i = 0; i < k->shared->n_slots; i++)
		if (atomic_load_explicit(&k->shared->owners[i].state, memory_order_acquire) == FM_WIRE_LIVE)
			fm_cost_add_new(&window, &k->cost_seen, i, fm_shared_slot(k->shared, i));
	bool is_first = !k->cost_seen.is_later;
	k->cost_seen.is_later |= fm_cost_samples(&window) > 0;
	if (is_first || fm_cost_samples(&window) < BUDGET_SAMPLES)
		return 0;
	// The median: a process that just starts has dear samples for a while, and lowering the
	// rate would not outlast them.
	double cost_ns = (double)fm_cost_median_cycles(&window) / cycles_per_ns + FM_TICKER_DELIVERY_NS;
	double handlers_ns = cost_ns / k->options.max_overhead;
	double all_ns = (cost_ns + crowded * FM_TICKER_COLD_NS) / k->options.max_overhead;
	return (uint64_t)FM_MAX(handlers_ns, FM_MIN(all_ns, (double)COLD_PERIOD_NS));
}

// Somewhere around a period from now.
//
// On a crowded machine the ticks themselves set a beat, as each takes a CPU from somebody who then
// waits for the next turn: how long ago the last tick was tells who runs. Only when that says
// nothing of the next one does every moment have the same chance, so they come as radioactive decay
// does.
uint64_t fm_ticker_jittered(struct fm_ticker *k, uint64_t period, uint64_t now_ns)
{
	if (now_ns - k->crowded_ns >= CROWDED_NS)
		return fm_random_around(&k->random, period);
	uint64_t random = fm_random_next(&k->random);
	return (uint64_t)(-log((double)((random >> 11) + 1) * 0x1p-53) * (double)period);
}
