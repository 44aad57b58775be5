// SPDX-License-Identifier: Apache-2.0
// What changed between two sets of runs, each change with its interval and whether chance explains
// it; and two captures in one tree.
#pragma once

#include "aggregate/analysis/analysis.h"
#include "aggregate/compare/runs.h"

struct fm_change {
	struct fm_mean base, new;
	double delta, plus_minus; // new - base, and half its 95 % interval
	double p;                 // the chance that a difference this large comes about without a change
	bool is_significant;      // p is small even though this many comparisons were made
};

struct fm_diff_row {
	const struct fm_run_row *row; // of the new runs, or of the old where it is gone; borrowed
	bool is_in_base, is_in_new;
	struct fm_change change;
};

struct fm_diff {
	struct fm_change wall_s, cpu_s, max_rss_bytes;
	FM_VEC(struct fm_diff_row) functions, lines; // seconds; largest change first
	FM_VEC(struct fm_diff_row)
	memory_functions, memory_lines; // bytes, each one's own peak; empty unless all runs captured memory
	bool is_sampling_only;          // a side has one run: how much runs differ is not known
};

// Rows below this share of the CPU time on both sides are left out: they are noise, and cost
// certainty for the others.
#define FM_DIFF_MIN_SHARE 0.002
#define FM_DIFF_MIN_MEMORY_SHARE 0.01 // of the resident memory

// Borrows from both sets, which have to live as long. Unless is_all, only the user's own code is
// compared.
void fm_diff_build(struct fm_diff *d, const struct fm_runs *base, const struct fm_runs *new, bool is_all);
void fm_diff_deinit(struct fm_diff *d);

// Two captures side by side: one tree for both. Pure. What changed, and whether chance explains it,
// is diff.h's to say.
//
// A function is the same in both when kind, module and whole name are: paths differ between
// machines, and lines between versions. So nodes are functions, not lines. Index 0 of a pair is the
// base, 1 the new capture.
struct fm_diff_tree_function {
	uint32_t id[2]; // function ids in the two captures; FM_NO_ID = not there
};

struct fm_diff_tree_cell {
	uint32_t node;
	uint8_t class;
	uint64_t ns[2];
	uint64_t n[2]; // samples, and the sum of their squared weights: of CPU classes, for intervals
	double sq[2];
};

struct fm_diff_tree_heap {
	uint32_t node;
	uint64_t bytes[2][FM_N_HEAP_KINDS]; // at the peak: each at its own
};

struct fm_diff_tree {
	FM_VEC(struct fm_diff_tree_function) functions;
	FM_VEC(struct fm_node) nodes; // function_id: of the functions here; parents first
	FM_VEC(struct fm_diff_tree_cell) cells;
	FM_VEC(struct fm_diff_tree_heap) heap; // one for each node with memory
	uint64_t n_left_out;                   // nodes
};

void fm_diff_tree_build(struct fm_diff_tree *c, const struct fm_analysis *base, const struct fm_analysis *a,
			size_t max_nodes);
void fm_diff_tree_deinit(struct fm_diff_tree *c);
