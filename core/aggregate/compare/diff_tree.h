// SPDX-License-Identifier: Apache-2.0
// Two captures side by side: one tree for both. Pure. What changed, and whether chance explains it,
// is diff.h's to say.
//
// A function is the same in both when kind, module and whole name are: paths differ between
// machines, and lines between versions. So nodes are functions, not lines. Index 0 of a pair is the
// base, 1 the new capture.
#pragma once

#include "aggregate/analysis/analysis.h"

struct fm_diff_tree_function {
	uint32_t id[2]; // function ids in the two captures; FM_NO_ID = not there
};

struct fm_diff_tree_cell {
	uint32_t node;
	uint8_t class;
	uint64_t ns[2];
};

struct fm_diff_tree {
	FM_VEC(struct fm_diff_tree_function) functions;
	FM_VEC(struct fm_node) nodes; // function_id: of the functions here; parents first
	FM_VEC(struct fm_diff_tree_cell) cells;
	uint64_t n_left_out; // nodes
};

void fm_diff_tree_build(struct fm_diff_tree *c, const struct fm_analysis *base, const struct fm_analysis *a,
			size_t max_nodes);
void fm_diff_tree_deinit(struct fm_diff_tree *c);
