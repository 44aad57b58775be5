// SPDX-License-Identifier: Apache-2.0
// The one pass over a profile's events: what was sampled, counted per (thread, stack, class).
//
// Memory grows with distinct (thread, stack, class) triples, not with samples. Of a large capture
// neither the cells nor the table that finds them fit the cache: who knows what comes next has both
// fetched meanwhile.
#pragma once

#include <stdint.h>

#include "aggregate/tally/block_log.h"
#include "aggregate/tally/weight.h"
#include "base/hash.h"
#include "base/mem.h"
#include "read/observe.h"

struct fm_cell {
	uint32_t thread_id, stack_id;
	uint8_t class;
	uint64_t n;         // samples
	uint64_t last_ns;   // the latest of them
	uint64_t weight_ns; // their sum
	double weight_sq;   // sum of squares in s^2, for intervals (docs/sampling-math.md)
};

static inline struct fm_weight fm_cell_weight(const struct fm_cell *cell)
{
	struct fm_weight w = { 0 };
	w.ns[cell->class] = cell->weight_ns;
	if (fm_class_is_cpu(cell->class)) {
		w.n = cell->n;
		w.cpu_sq = cell->weight_sq;
	}
	return w;
}

struct fm_thread_span {
	uint64_t first_ns, last_ns;
	uint64_t n, n_waits;      // samples, and those of waiting among them
	uint64_t cpu_ns, wait_ns; // the weight of those that did not wait, and of those that did
};

struct fm_cpu_sum {
	uint64_t n, weight_ns; // samples that did not wait
};

struct fm_tally {
	FM_VEC(struct fm_cell) cells;
	struct fm_cell_slot {
		uint32_t cell; // + 1; 0 = free
		uint32_t tag;  // of the hash: a slot of another triple is told without a look at its cell
	} * slots;
	size_t n_slots; // a power of two
	FM_VEC(struct fm_thread_span) threads;
	FM_VEC(struct fm_cpu_sum) cpus; // by number: what ran there
	uint64_t n_samples, n_invalid;
	double heavy_sq;           // sum of the squared weights of samples for a gap (fm_weight_is_gap), s^2
	struct fm_heap_log memory; // its events are kept, as peaks need their order
};

// A zeroed tally is empty.
void fm_tally_deinit(struct fm_tally *t);
// n samples of one thread, stack and class: while a program stays where it is, they come one after
// the other.
void fm_tally_add(struct fm_tally *t, const struct fm_sample *samples, uint32_t n);
// A sample that was added counts for another stack from now on. What is left behind may be empty:
// fm_tally_drop_empty() ends the moves.
void fm_tally_move(struct fm_tally *t, const struct fm_sample *sample, uint32_t stack_id);
void fm_tally_drop_empty(struct fm_tally *t);
// Any samples.
void fm_tally_add_all(struct fm_tally *t, const struct fm_sample *samples, uint32_t n);
// Adds all that it is told of.
struct fm_observer fm_tally_observer(struct fm_tally *t);
