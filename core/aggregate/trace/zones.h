// SPDX-License-Identifier: Apache-2.0
// A trace as a picture of any part of it, at any size: every zone lies in the row of its thread and
// depth, in order of time. Zones of one row do not overlap, so what a pixel shows is found by
// search, and the cost of a picture is that of its pixels, not of the zones in it.
#pragma once

#include "aggregate/trace/durations.h"
#include "aggregate/trace/walk.h"
#include "base/hash.h"
#include "base/mem.h"
#include "read/reader.h"

// 16 bytes, as there are tens of millions. Times are ns, since fm_zones.origin_ns; 48 bits are
// three days.
struct fm_zone {
	uint64_t begin_ns : 48, label_low : 16;
	uint64_t duration_ns : 48, label_high : 16;
};

static inline uint32_t fm_zone_label_of(const struct fm_zone *z)
{
	return (uint32_t)z->label_high << 16 | (uint32_t)z->label_low;
}
static inline uint64_t fm_zone_end_ns(const struct fm_zone *z)
{
	return z->begin_ns + z->duration_ns;
}

// The sums of so many neighbours, so that a pixel over a million zones does not look at each.
#define FM_ZONES_IN_BLOCK 64
struct fm_zone_block {
	uint64_t busy_ns;
	uint32_t longest; // a zone of the row
};

struct fm_zone_row {
	FM_VEC(struct fm_zone) zones;
	FM_VEC(struct fm_zone_block) blocks; // by fm_zones_finish
};

struct fm_zone_open; // what has begun and not ended, while reading
struct fm_zone_thread {
	FM_VEC(struct fm_zone_row) rows; // by depth, 0 = outermost
	FM_VEC(struct fm_zone_open) open;
	FM_VEC(uint32_t) active; // by label: how often it is open
	struct fm_trace_stack walked;
};

// What zones are of: a code or a name, with the sums over all of its zones. Numbered in order of
// first sight, which a file that grows keeps.
struct fm_zone_label {
	fm_zone_ref ref;           // 0 = events were lost here
	uint64_t n_calls;          // a generator that goes on is a span and no call
	uint64_t own_ns, total_ns; // innermost; on the stack, once however often it stands there
	struct fm_durations spans; // of those that have ended
};

struct fm_zone_point {
	uint64_t time_ns;
	double value;
};

struct fm_zone_counter {
	uint32_t name;
	uint64_t n_seen, stride; // one in so many is kept
	FM_VEC(struct fm_zone_point) points;
};

struct fm_zones {
	FM_VEC(struct fm_zone_thread) threads; // by thread id
	FM_VEC(struct fm_zone_label) labels;   // [0] stands for what is not known
	FM_VEC(struct fm_trace_mark) marks;
	FM_VEC(struct fm_zone_counter) counters;
	uint64_t origin_ns;        // what the times of zones count from
	uint64_t begin_ns, end_ns; // of the trace; end 0 = it has no event
	size_t n;                  // zones in all rows
	size_t max;                // more are thinned out, shortest first; 0 = as many as fit well
	uint64_t grain_ns;         // shorter ones were left out
	uint64_t n_left_out, left_out_ns;
	uint64_t n_marks_left_out;
	size_t n_points, max_points;       // of all counters; more are thinned out, in those that have most first
	FM_VEC(uint32_t) of_code, of_name; // label + 1, while reading
	struct fm_map of_counter;          // name -> its place in counters, while reading
};

// A zeroed struct is an empty trace. Batches of one thread come in order.
void fm_zones_add(struct fm_zones *z, const struct fm_profile *p, struct fm_zone_batch *batch);
void fm_zones_finish(struct fm_zones *z); // ends what is open; then the rows can be looked at
void fm_zones_deinit(struct fm_zones *z);
