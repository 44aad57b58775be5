// SPDX-License-Identifier: Apache-2.0
#include "aggregate/tree/prune.h"

#include "aggregate/tally/weight.h"

#include <stdlib.h>
#include <string.h>

void fm_pruned_deinit(struct fm_pruned *p)
{
	fm_vec_deinit(&p->nodes);
	free(p->kept);
	*p = (struct fm_pruned){ 0 };
}

double *fm_prune_shares(const struct fm_tally *tally, const struct fm_view *view)
{
	double *shares = fm_alloc((view->nodes.n + 1) * sizeof(*shares));
	double whole[2] = { 0, 0 }; // waiting, CPU
	for (size_t i = 0; i < tally->cells.n; i++)
		whole[fm_class_is_cpu(tally->cells.items[i].class)] += (double)tally->cells.items[i].weight_ns;
	for (size_t i = 0; i < tally->cells.n; i++) {
		const struct fm_cell *cell = &tally->cells.items[i];
		double all = whole[fm_class_is_cpu(cell->class)];
		// A sample without weight still has a place.
		shares[fm_view_node(view, cell->stack_id)] += all > 0 ? (double)cell->weight_ns / all : 1e-9;
	}
	return shares;
}

// The value that exactly `rank` others are larger than (or equal to, among equals). Reorders v.
static double select_largest(double *v, size_t n, size_t rank)
{
	size_t low = 0, high = n - 1;
	while (low < high) {
		double pivot = v[low + (high - low) / 2];
		size_t i = low, j = high;
		for (;; i++, j--) {
			while (v[i] > pivot)
				i++;
			while (v[j] < pivot)
				j--;
			if (i >= j)
				break;
			double swap = v[i];
			v[i] = v[j];
			v[j] = swap;
		}
		if (rank <= j)
			high = j;
		else
			low = j + 1;
	}
	return v[rank];
}

// Marks which nodes stay: a node weighs no more than its parent and comes after it, so that the
// heaviest ones, earlier ones first among equals, are a tree.
static void choose(struct fm_pruned *p, const double *total, size_t n, size_t max_nodes, bool *stays)
{
	double least = 0;
	size_t n_above = 0, n_weighty = 0;
	for (size_t i = 1; i < n; i++)
		n_weighty += total[i] > 0;
	size_t room = FM_MIN(max_nodes ? max_nodes - 1 : 0, n_weighty);
	if (room < n_weighty) {
		double *copy = fm_alloc(n * sizeof(*copy));
		memcpy(copy, total, n * sizeof(*copy));
		least = select_largest(copy + 1, n - 1, room);
		free(copy);
		for (size_t i = 1; i < n; i++)
			n_above += total[i] > least;
	}
	size_t n_equal = room - n_above; // that still fit
	for (size_t i = 1; i < n; i++) {
		if (!(total[i] > 0))
			continue;
		stays[i] = total[i] > least || (total[i] == least && n_equal);
		n_equal -= total[i] == least && stays[i];
	}
	p->n_left_out = n_weighty - room;
}

void fm_prune(struct fm_pruned *p, const struct fm_view *view, const double *weight, size_t max_nodes)
{
	size_t n = view->nodes.n;
	const struct fm_node *nodes = view->nodes.items;
	*p = (struct fm_pruned){ .kept = fm_alloc((n + 1) * sizeof(*p->kept)) };
	fm_vec_push(&p->nodes, (struct fm_node){ 0 });
	if (n < 2)
		return;
	double *total = fm_alloc(n * sizeof(*total));
	memcpy(total, weight, n * sizeof(*total));
	for (size_t i = n; i-- > 1;)
		total[nodes[i].parent] += total[i];
	bool *stays = fm_alloc(n);
	choose(p, total, n, max_nodes, stays);
	free(total);

	// Kept nodes, first in their old order; children lists; then numbered by breadth.
	FM_VEC(uint32_t) old = { 0 };
	fm_vec_push(&old, 0);
	for (uint32_t i = 1; i < n; i++)
		if (stays[i]) {
			p->kept[i] = (uint32_t)old.n;
			fm_vec_push(&old, i);
		}
	uint32_t *first = fm_alloc(old.n * sizeof(*first)), *next = fm_alloc(old.n * sizeof(*next));
	for (size_t i = old.n; i-- > 1;) {
		uint32_t parent = p->kept[nodes[old.items[i]].parent];
		next[i] = first[parent];
		first[parent] = (uint32_t)i;
	}
	uint32_t *order = fm_alloc(old.n * sizeof(*order)), *place = fm_alloc(old.n * sizeof(*place)); // place: inverse
	size_t n_ordered = 1;
	fm_vec_reserve(&p->nodes, old.n);
	for (size_t i = 0; i < n_ordered; i++)
		for (uint32_t child = first[order[i]]; child; child = next[child]) {
			struct fm_node node = nodes[old.items[child]];
			node.parent = (uint32_t)i;
			place[child] = (uint32_t)n_ordered;
			order[n_ordered++] = child;
			fm_vec_push(&p->nodes, node);
		}
	for (size_t i = 1; i < n; i++)
		p->kept[i] = stays[i] ? place[p->kept[i]] : p->kept[nodes[i].parent];
	fm_vec_deinit(&old);
	free(first);
	free(next);
	free(order);
	free(place);
	free(stays);
}
