// SPDX-License-Identifier: Apache-2.0
#include "collect/shared/cost.h"

#include <stddef.h>

#include "base/compiler.h"

// First sights of code objects and images, cold caches and page faults stay below this; a
// preemption does not.
#define MOST_TIMES_MEDIAN 20

void fm_cost_add_slot(struct fm_cost *cost, const struct fm_wire_slot *slot)
{
	for (size_t i = 0; i < FM_WIRE_COST_BUCKETS; i++)
		cost->n[i] += atomic_load_explicit(&slot->cost[i], memory_order_relaxed);
}

void fm_cost_add_new(struct fm_cost *cost, struct fm_cost_seen *seen, uint32_t slot_idx,
		     const struct fm_wire_slot *slot)
{
	uint32_t now[FM_WIRE_COST_BUCKETS], *before = seen->n[slot_idx];
	bool is_same_thread = true; // a thread's counts never go down
	for (size_t i = 0; i < FM_WIRE_COST_BUCKETS; i++) {
		now[i] = atomic_load_explicit(&slot->cost[i], memory_order_relaxed);
		is_same_thread &= now[i] >= before[i];
	}
	for (size_t i = 0; i < FM_WIRE_COST_BUCKETS; i++) {
		cost->n[i] += now[i] - (is_same_thread ? before[i] : 0);
		before[i] = now[i];
	}
}

uint64_t fm_cost_samples(const struct fm_cost *cost)
{
	uint64_t n = 0;
	for (size_t i = 0; i < FM_WIRE_COST_BUCKETS; i++)
		n += cost->n[i];
	return n;
}

uint64_t fm_cost_median_cycles(const struct fm_cost *cost)
{
	uint64_t half = (fm_cost_samples(cost) + 1) / 2, seen = 0;
	for (unsigned i = 0; i < FM_WIRE_COST_BUCKETS && half; i++)
		if ((seen += cost->n[i]) >= half)
			return fm_wire_cost_cycles(i);
	return 0;
}

uint64_t fm_cost_total_cycles(const struct fm_cost *cost)
{
	uint64_t most = fm_cost_median_cycles(cost) * MOST_TIMES_MEDIAN, total = 0;
	for (unsigned i = 0; i < FM_WIRE_COST_BUCKETS; i++)
		total += cost->n[i] * FM_MIN(fm_wire_cost_cycles(i), most);
	return total;
}
