// SPDX-License-Identifier: Apache-2.0
#include "aggregate/tree/edges.h"

#include <stdlib.h>
#include <string.h>

void fm_edges_deinit(struct fm_edges *e)
{
	fm_vec_deinit(&e->items);
}

static int compare(const void *pa, const void *pb)
{
	const struct fm_edge *a = pa, *b = pb;
	if (a->weight != b->weight)
		return (b->weight > a->weight) - (b->weight < a->weight);
	if (a->caller != b->caller)
		return (a->caller > b->caller) - (a->caller < b->caller);
	return (a->callee > b->callee) - (a->callee < b->callee);
}

void fm_edges_build(struct fm_edges *e, const struct fm_node *nodes, size_t n, const double *weight)
{
	*e = (struct fm_edges){ 0 };
	double *total = fm_alloc((n + 1) * sizeof(*total));
	uint32_t *first = fm_alloc((n + 1) * sizeof(*first)), *next = fm_alloc((n + 1) * sizeof(*next));
	uint32_t *edge = fm_alloc((n + 1) * sizeof(*edge)); // by node: edge id + 1 of the call that made it, 0 = none
	struct fm_map index = { 0 };
	memcpy(total, weight, n * sizeof(*total));
	for (size_t i = n; i-- > 1;) {
		uint32_t parent = nodes[i].parent;
		total[parent] += total[i];
		next[i] = first[parent];
		first[parent] = (uint32_t)i;
	}
	for (size_t i = 1; i < n; i++) {
		if (!nodes[i].parent)
			continue;
		uint32_t caller = nodes[nodes[i].parent].function_id, callee = nodes[i].function_id;
		bool is_new;
		uint64_t *id = fm_map_at(&index, (uint64_t)caller << 32 | callee, &is_new);
		if (is_new) {
			fm_vec_push(&e->items, (struct fm_edge){ caller, callee, 0 });
			*id = e->items.n;
		}
		edge[i] = (uint32_t)*id;
	}
	fm_map_deinit(&index);
	uint32_t *n_on_path = fm_alloc((e->items.n + 1) * sizeof(*n_on_path)); // [0] is of the roots, never read
	for (uint32_t node = n ? first[0] : 0; node;) {
		if (n_on_path[edge[node]]++ == 0 && edge[node])
			e->items.items[edge[node] - 1].weight += total[node];
		uint32_t to = first[node];
		while (!to && node) { // up, until there is a way to the side
			n_on_path[edge[node]]--;
			to = next[node];
			node = nodes[node].parent;
		}
		node = to;
	}
	if (e->items.n)
		qsort(e->items.items, e->items.n, sizeof(*e->items.items), compare);
	free(total);
	free(first);
	free(next);
	free(edge);
	free(n_on_path);
}
