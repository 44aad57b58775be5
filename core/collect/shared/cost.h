// SPDX-License-Identifier: Apache-2.0
// What samples cost the target, from the histograms that handlers keep in their slots.
//
// A handler's time is taken with the cycle counter, which runs on while the thread is preempted.
// Such a time says nothing about the handler, so what is far above the median counts as the
// median's multiple only.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "wire/wire.h"

struct fm_cost {
	uint64_t n[FM_WIRE_COST_BUCKETS];
};

// What each slot had counted at the last look.
struct fm_cost_seen {
	uint32_t n[FM_WIRE_N_SLOTS][FM_WIRE_COST_BUCKETS];
	bool is_later; // than the first look
};

void fm_cost_add_slot(struct fm_cost *cost, const struct fm_wire_slot *slot);
// Adds what the slot has counted since the last look; all of it when the slot belongs to another
// thread by now.
void fm_cost_add_new(struct fm_cost *cost, struct fm_cost_seen *seen, uint32_t slot_idx,
		     const struct fm_wire_slot *slot);
uint64_t fm_cost_samples(const struct fm_cost *cost);
uint64_t fm_cost_median_cycles(const struct fm_cost *cost); // 0 when there are no samples
uint64_t fm_cost_total_cycles(const struct fm_cost *cost);
