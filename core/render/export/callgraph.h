// SPDX-License-Identifier: Apache-2.0
// Who calls whom, pruned to what a picture can show: of a trace's calls where the capture has any,
// else of its samples.
#pragma once

#include "aggregate/analysis/analysis.h"

struct fm_callgraph_box {
	struct fm_str name;
	struct fm_str place; // "file.py:12", a library, or ""
	double total, own;   // shares of the whole
	uint64_t n_calls;    // 0 when they were not counted
};

struct fm_callgraph_line {
	uint32_t from, to; // boxes; equal for recursion
	double total;
	uint64_t n_calls;
};

struct fm_callgraph {
	FM_VEC(struct fm_callgraph_box) boxes; // largest total first
	FM_VEC(struct fm_callgraph_line) lines;
	bool is_traced; // calls were counted; the whole is traced time, else CPU time
	double whole_s;
	struct fm_str unit; // what whole_s counts in thousand millions, where it is no time; else ""
	size_t n_left_out;  // functions
	struct fm_arena strings;
};

// Of an analysis with totals and calls; where it has no calls, stacks are added. max_boxes: 0 = no
// limit beyond the least share.
FM_MUST_CHECK enum fm_err fm_callgraph_build(struct fm_callgraph *g, struct fm_analysis *a, size_t max_boxes,
					     struct fm_diag *diag);
void fm_callgraph_deinit(struct fm_callgraph *g);

// The colour of a share, from blue (cold) to red (hot) as gprof2dot paints. Hue, saturation, value:
// each from 0 to 1.
struct fm_hsv {
	double h, s, v;
};
struct fm_hsv fm_callgraph_color(double share);
