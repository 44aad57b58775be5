// SPDX-License-Identifier: Apache-2.0
// What a part of a trace looks like at a given width: zones that are wide enough one by one,
// narrower ones of the same pixel as one span that says how many they are.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "aggregate/analysis/filter.h"
#include "aggregate/trace/zones.h"

struct fm_zone_range {
	uint64_t from_ns, to_ns;         // from <= time < to, on the clock of the capture
	uint32_t pixels;                 // 0 = every zone by itself
	uint32_t max_depth;              // rows of each thread; 0 = all
	const struct fm_filter *threads; // whose threads; NULL = all
};

struct fm_zone_span {
	uint32_t thread_id;
	uint16_t depth;
	uint32_t label;            // of the longest of them
	uint64_t begin_ns, end_ns; // of the first and of the last, also where they reach out of the range
	uint64_t n, busy_ns;       // zones, and the sum of their durations
};

struct fm_zone_spans {
	FM_VEC(struct fm_zone_span) items; // by thread, depth and time
	uint64_t n_merged, merged_ns;      // zones that have no span of their own
	uint64_t n_deeper, deeper_ns;      // zones below max_depth
};

// Every zone that overlaps the range is in exactly one span, or below max_depth.
void fm_zone_spans_find(struct fm_zone_spans *ret, const struct fm_zones *z, const struct fm_zone_range *range);
// The same at as many pixels as give at most max_spans, but not at fewer than 512. *ret_pixels is 0
// when every zone has its own.
void fm_zone_spans_fit(struct fm_zone_spans *ret, const struct fm_zones *z, struct fm_zone_range range,
		       size_t max_spans, uint32_t *ret_pixels);
void fm_zone_spans_deinit(struct fm_zone_spans *s);
