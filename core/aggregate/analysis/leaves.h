// SPDX-License-Identifier: Apache-2.0
// Where samples and allocations end, summed up per group (thread, process or everything): what
// stack outputs are written from.
#pragma once

#include "aggregate/analysis/analysis.h"

struct fm_leaf {
	uint32_t group;        // thread id, process id, or 0
	uint32_t node;         // of the view
	uint64_t n, weight_ns; // for a metric of bytes both are bytes
};

struct fm_leaves {
	FM_VEC(struct fm_leaf) items;
};

// Sorted by group, then node; one row each. Only samples of the classes that the options show.
void fm_leaves_build(struct fm_leaves *l, const struct fm_profile *profile, const struct fm_tally *tally,
		     const struct fm_view *view, const struct fm_view_options *options);
// The same by options->metric, which may be of memory.
void fm_leaves_of(struct fm_leaves *l, const struct fm_analysis *a, const struct fm_view_options *options);
void fm_leaves_deinit(struct fm_leaves *l);
