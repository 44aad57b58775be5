// SPDX-License-Identifier: Apache-2.0
// A smaller tree with the same sums: the heaviest nodes stay, and what ended in the others ends in
// their nearest kept ancestor. For whoever has to hold a tree of any capture in bounded room.
#pragma once

#include "aggregate/tree/view.h"

struct fm_pruned {
	FM_VEC(struct fm_node) nodes; // by breadth: parents before children, the children of one parent side by side
	uint32_t *kept;               // by node of the view: itself here, or its nearest kept ancestor
	uint64_t n_left_out;          // nodes with a weight of their own or below that are not here
};

// What to prune by: what ends in each node, each metric as a share of its own whole, so that hours
// of waiting do not push what was computed out of the tree. To be freed. Memory, where a capture
// has it, adds its own shares.
double *fm_prune_shares(const struct fm_tally *tally, const struct fm_view *view);

// weight: by node of the view, what ends there; none negative. Nodes without any at or below them
// never stay. max_nodes counts the root, which always stays.
void fm_prune(struct fm_pruned *p, const struct fm_view *view, const double *weight, size_t max_nodes);
void fm_pruned_deinit(struct fm_pruned *p);
