// The one pass over a profile's events: what was sampled, counted per (thread, stack, class).
//
// Memory grows with distinct (thread, stack, class) triples, not with samples. A sample usually has the same thread and
// class as the last one with its stack, so that the common case is one array look-up.
#pragma once

#include <stdint.h>

#include "aggregate/heap_log.h"
#include "base/hash.h"
#include "base/mem.h"
#include "read/reader.h"

struct fm_cell {
	uint32_t thread_id, stack_id;
	uint8_t class;
	uint32_t next;      // a cell of the same stack (tally.c)
	uint64_t n;         // samples
	uint64_t last_ns;   // the latest of them
	uint64_t weight_ns; // their sum
	double weight_sq;   // sum of squares in s^2, for intervals (docs/sampling-math.md)
};

struct fm_thread_span {
	uint64_t first_ns, last_ns, n;
};

struct fm_tally {
	FM_VEC(struct fm_cell) cells;
	FM_VEC(uint32_t) last_cell; // by stack id: cell + 1 of its latest sample
	FM_VEC(struct fm_thread_span) threads;
	struct fm_map index; // (stack, thread, class) -> cell, where one stack has many
	uint64_t n_samples, n_invalid;
	struct fm_heap_log memory; // its events are kept, as peaks need their order
};

// A zeroed tally is empty.
void fm_tally_deinit(struct fm_tally *t);
void fm_tally_add(struct fm_tally *t, const struct fm_sample *sample);
// Who sees every event beside the tally, so that the file is read once.
struct fm_witness {
	void (*see)(void *ctx, const struct fm_profile *profile, struct fm_event *event);
	void *ctx;
};
// Adds everything the reader still has. FM_OK at its end. witness may be NULL.
FM_MUST_CHECK enum fm_err fm_tally_read(struct fm_tally *t, struct fm_reader *r, const struct fm_witness *witness);
