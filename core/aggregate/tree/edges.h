// SPDX-License-Identifier: Apache-2.0
// Who calls whom: the time below every pair of caller and callee, counted once per stack however
// often recursion repeats the pair.
#pragma once

#include "aggregate/tree/view.h"

struct fm_edge {
	uint32_t caller, callee; // function ids
	double weight;
};

struct fm_edges {
	FM_VEC(struct fm_edge) items; // heaviest first
};

// nodes: any tree whose parents come first, node 0 its root. weight: by node, what ends there.
void fm_edges_build(struct fm_edges *e, const struct fm_node *nodes, size_t n_nodes, const double *weight);
void fm_edges_deinit(struct fm_edges *e);
