// SPDX-License-Identifier: Apache-2.0
#include "aggregate/analysis/leaves.h"

#include <stdlib.h>
#include <string.h>

static int compare(const void *pa, const void *pb)
{
	const struct fm_leaf *a = pa, *b = pb;
	if (a->group != b->group)
		return (a->group > b->group) - (a->group < b->group);
	return (a->node > b->node) - (a->node < b->node);
}

static uint32_t group_of(const struct fm_profile *profile, const struct fm_view_options *options, uint32_t thread_id)
{
	if (options->threads)
		return thread_id;
	if (options->processes)
		return thread_id < profile->threads.n ? profile->threads.items[thread_id].process_id : FM_NO_ID;
	return 0;
}

static void sum_up(struct fm_leaves *l)
{
	if (!l->items.n)
		return;
	qsort(l->items.items, l->items.n, sizeof(*l->items.items), compare);
	size_t kept = 0;
	for (size_t i = 1; i < l->items.n; i++) {
		struct fm_leaf *last = &l->items.items[kept], *leaf = &l->items.items[i];
		if (compare(last, leaf)) {
			l->items.items[++kept] = *leaf;
		} else {
			last->n += leaf->n;
			last->weight_ns += leaf->weight_ns;
		}
	}
	l->items.n = kept + 1;
}

void fm_leaves_build(struct fm_leaves *l, const struct fm_profile *profile, const struct fm_tally *tally,
		     const struct fm_view *view, const struct fm_view_options *options)
{
	*l = (struct fm_leaves){ 0 };
	for (size_t i = 0; i < tally->cells.n; i++) {
		const struct fm_cell *cell = &tally->cells.items[i];
		if (!fm_view_shows_class(options, cell->class))
			continue;
		uint32_t group = group_of(profile, options, cell->thread_id);
		fm_vec_push(&l->items,
			    (struct fm_leaf){ group, fm_view_node(view, cell->stack_id), cell->n, cell->weight_ns });
	}
	sum_up(l);
}

static void build_memory(struct fm_leaves *l, const struct fm_profile *profile, const struct fm_heap *heap,
			 const struct fm_view *view, const struct fm_view_options *options)
{
	*l = (struct fm_leaves){ 0 };
	for (size_t i = 0; i < heap->stacks.n; i++) {
		const struct fm_heap_stack_row *row = &heap->stacks.items[i];
		uint64_t bytes = options->metric == FM_METRIC_ALLOC  ? row->alloc_bytes
				 : options->metric == FM_METRIC_PEAK ? row->at_peak_bytes
				 : options->metric == FM_METRIC_LEAK ? row->leaked_bytes
								     : row->copy_bytes;
		if (bytes)
			fm_vec_push(&l->items, (struct fm_leaf){ group_of(profile, options, row->thread_id),
								 fm_view_node(view, row->stack_id), bytes, bytes });
	}
	sum_up(l);
}

void fm_leaves_of(struct fm_leaves *l, const struct fm_analysis *a, const struct fm_view_options *options)
{
	if (options->metric == FM_METRIC_TIME)
		fm_leaves_build(l, a->profile, &a->tally, &a->view, options);
	else
		build_memory(l, a->profile, &a->heap, &a->view, options);
}

void fm_leaves_deinit(struct fm_leaves *l)
{
	fm_vec_deinit(&l->items);
}
