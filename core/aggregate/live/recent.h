// SPDX-License-Identifier: Apache-2.0
// The last seconds of a capture that still grows: what each thread did, which functions were
// called, zones, marks and counters.
//
// Time is cut into buckets that are kept for a few seconds. So memory grows with what is distinct
// within these, not with samples or calls, and what is too old to be shown costs next to nothing:
// whoever comes late passes over the past quickly.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/mem.h"
#include "aggregate/trace/walk.h"
#include "read/reader.h"

#define FM_RECENT_BUCKET_NS 250000000u
#define FM_RECENT_SHOWN 20u // buckets: five seconds
#define FM_RECENT_KEPT 24u  // the newest are still being filled

// The samples of one thread, stack and class.
struct fm_recent_cell {
	uint32_t thread_id, stack_id;
	uint8_t class;
	uint64_t weight_ns;
};

// What a trace says of one function or zone.
struct fm_recent_calls {
	fm_zone_ref ref;
	uint64_t n;                // that began
	uint64_t own_ns;           // while it was the innermost one
	uint64_t n_ended;          // that ended here
	uint64_t total_ns, max_ns; // of those
};

struct fm_recent_bucket {
	uint64_t index; // time / FM_RECENT_BUCKET_NS
	FM_VEC(struct fm_recent_cell) cells;
	FM_VEC(struct fm_recent_calls) calls;
	struct fm_map cell_index, call_index;
	uint32_t n_spans;
};

struct fm_recent_open {
	fm_zone_ref ref;
	uint64_t begin_ns;
	bool is_older; // it began before anybody looked
};

struct fm_recent_thread {
	uint64_t last_ns; // of its last sample; 0 = none so far
	uint32_t last_stack;
	uint8_t last_class;
	// Of its trace:
	bool is_traced, is_lost; // is_lost: parts were passed over, the stack is not known
	uint64_t event_ns;
	struct fm_trace_stack walked;
	FM_VEC(struct fm_recent_open) open;
};

// A stretch long enough to be drawn.
struct fm_recent_span {
	fm_zone_ref ref;
	uint32_t thread_id, depth;
	uint64_t begin_ns, end_ns;
};

struct fm_recent_counter {
	uint32_t name;
	double value; // the latest
	uint64_t time_ns;
	double values[FM_RECENT_KEPT]; // the last of each bucket
	uint64_t index[FM_RECENT_KEPT];
};

#define FM_RECENT_SPANS 2048u
#define FM_RECENT_MARKS 32u
#define FM_RECENT_COUNTERS 64u

struct fm_recent {
	struct fm_recent_bucket buckets[FM_RECENT_KEPT];
	FM_VEC(struct fm_recent_thread) threads; // by thread id
	struct fm_recent_span spans[FM_RECENT_SPANS];
	uint64_t n_spans;     // all that were ever kept; the latest FM_RECENT_SPANS are there
	uint64_t min_span_ns; // shorter ones are not drawn; follows how many there are
	uint32_t n_calm;      // buckets in a row with few of them
	struct fm_trace_mark marks[FM_RECENT_MARKS];
	uint64_t n_marks;
	FM_VEC(struct fm_recent_counter) counters;
	uint64_t n_samples, n_waits,
		n_events; // since the beginning; n_waits: of the samples, those of threads that waited
	uint64_t oldest_ns, newest_ns;
};

void fm_recent_init(struct fm_recent *r);
void fm_recent_deinit(struct fm_recent *r);
// What happened before is not kept, what claims to be later is not believed.
void fm_recent_set_now(struct fm_recent *r, uint64_t now_ns);
void fm_recent_sample(struct fm_recent *r, const struct fm_sample *sample);
void fm_recent_trace(struct fm_recent *r, const struct fm_profile *p, struct fm_zone_batch *batch);
// The bucket of that index, or NULL when nothing happened in it.
const struct fm_recent_bucket *fm_recent_bucket(const struct fm_recent *r, uint64_t index);
