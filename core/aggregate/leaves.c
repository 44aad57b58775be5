#include "aggregate/leaves.h"

#include <stdlib.h>
#include <string.h>

static int compare(const void *pa, const void *pb)
{
	const struct fm_leaf *a = pa, *b = pb;
	if (a->group != b->group)
		return (a->group > b->group) - (a->group < b->group);
	return (a->node > b->node) - (a->node < b->node);
}

void fm_leaves_build(struct fm_leaves *l, const struct fm_profile *profile, const struct fm_tally *tally,
		     const struct fm_view *view, const struct fm_view_options *options)
{
	*l = (struct fm_leaves){ 0 };
	for (size_t i = 0; i < tally->cells.n; i++) {
		const struct fm_cell *cell = &tally->cells.items[i];
		if (!fm_view_shows_class(options, cell->class))
			continue;
		uint32_t group = 0;
		if (options->threads)
			group = cell->thread_id;
		else if (options->processes)
			group = cell->thread_id < profile->threads.n
					? profile->threads.items[cell->thread_id].process_id
					: FM_NO_ID;
		fm_vec_push(&l->items,
			    (struct fm_leaf){ group, fm_view_node(view, cell->stack_id), cell->n, cell->weight_ns });
	}
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

void fm_leaves_deinit(struct fm_leaves *l)
{
	fm_vec_deinit(&l->items);
}
