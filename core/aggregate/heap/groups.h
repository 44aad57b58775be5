// SPDX-License-Identifier: Apache-2.0
// Blocks by line and by function: the places whose figures are kept.
#pragma once

#include "aggregate/heap/heap.h"

// One running sum over time.
struct fm_gauge {
	uint64_t live, peak;
	double var, peak_var;
};

struct fm_heap_groups {
	uint32_t *line_of_node;      // row of the lines table + 1; 0 = no Python
	uint32_t *chain_of_node;     // place in chains + 1; 0 = no event ends in this node
	uint32_t (*self_of_node)[2]; // see fm_heap_groups_self
	bool *is_imported_of_node;   // what an import makes is no leak
	FM_VEC(uint32_t) chains;     // {n, n distinct function ids} each
	struct fm_attribution *payers;
};

void fm_heap_groups_init(struct fm_heap_groups *g, struct fm_heap *h, const struct fm_heap_input *in);
void fm_heap_groups_deinit(struct fm_heap_groups *g);

// Functions on the stack, each once; *ret_n of them.
static inline const uint32_t *fm_heap_groups_chain(const struct fm_heap_groups *g, uint32_t node, uint32_t *ret_n)
{
	uint32_t at = g->chain_of_node[node];
	*ret_n = at ? g->chains.items[at - 1] : 0;
	return at ? &g->chains.items[at] : NULL;
}
// The functions that a block at this node is charged to: the innermost Python one, and the
// innermost shown if that is native. FM_NO_ID = none.
static inline const uint32_t *fm_heap_groups_self(const struct fm_heap_groups *g, uint32_t node)
{
	return g->self_of_node[node];
}
