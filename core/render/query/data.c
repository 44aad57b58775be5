// SPDX-License-Identifier: Apache-2.0
#include "render/query/data.h"

#include <stdlib.h>
#include <string.h>

void fm_query_data_init(struct fm_query_data *d, struct fm_analysis *a)
{
	*d = (struct fm_query_data){ .a = a };
	if (a->symbolizer)
		d->summary = fm_analysis_summary(a);
	if (a->profile->processes.n)
		d->start_ns = a->profile->processes.items[0].info.start_ns;
	fm_arena_init(&d->arena);
}

void fm_query_data_deinit(struct fm_query_data *d)
{
	fm_vec_deinit(&d->functions);
	fm_vec_deinit(&d->lines);
	free(d->self);
	free(d->total);
	fm_vec_deinit(&d->stacks);
	fm_vec_deinit(&d->waits);
	fm_vec_deinit(&d->allocs);
	free(d->payers);
	if (d->has_libraries)
		fm_libraries_deinit(&d->libraries);
	fm_vec_deinit(&d->coverage);
	free(d->zone_order);
	fm_arena_deinit(&d->arena);
}

const struct fm_facts *fm_query_facts(struct fm_query_data *d)
{
	if (!d->has_facts)
		fm_facts_gather(&d->facts, d->a);
	d->has_facts = true;
	return &d->facts;
}

// A row of the heap that the index lent, by its number.
#define ROW_NUMBER(row, rows) ((row) ? (uint32_t)((row) - (rows).items) : FM_QUERY_NO_ROW)

// Those with time first; then those that only allocate. As the report for machines lists them.
void fm_query_need_functions(struct fm_query_data *d)
{
	if (d->has_functions)
		return;
	d->has_functions = true;
	struct fm_json_heap_index heap;
	fm_json_heap_index_init(&heap, d->a);
	for (uint32_t i = 0; i < d->summary->functions.n; i++) {
		const struct fm_heap_function_row *row =
			fm_json_heap_function(&heap, d->summary->functions.items[i].function_id);
		fm_vec_push(&d->functions, (struct fm_query_pair){ i, ROW_NUMBER(row, d->a->heap.functions) });
	}
	for (uint32_t i = 0; i < d->a->heap.functions.n; i++)
		if (!heap.function_is_done[i])
			fm_vec_push(&d->functions, (struct fm_query_pair){ FM_QUERY_NO_ROW, i });
	fm_json_heap_index_deinit(&heap);
}

void fm_query_need_lines(struct fm_query_data *d)
{
	if (d->has_lines)
		return;
	d->has_lines = true;
	struct fm_json_heap_index heap;
	fm_json_heap_index_init(&heap, d->a);
	for (uint32_t i = 0; i < d->summary->lines.n; i++) {
		const struct fm_line_row *line = &d->summary->lines.items[i];
		const struct fm_heap_line_row *row = fm_json_heap_line(&heap, line->file_id, line->line);
		fm_vec_push(&d->lines, (struct fm_query_pair){ i, ROW_NUMBER(row, d->a->heap.lines) });
	}
	for (uint32_t i = 0; i < d->a->heap.lines.n; i++)
		if (!heap.line_is_done[i])
			fm_vec_push(&d->lines, (struct fm_query_pair){ FM_QUERY_NO_ROW, i });
	fm_json_heap_index_deinit(&heap);
}

static void add_cell(struct fm_weight *to, const struct fm_cell *cell)
{
	to->ns[cell->class] += cell->weight_ns;
	to->n += fm_class_is_cpu(cell->class) ? cell->n : 0;
	to->cpu_sq += fm_class_is_cpu(cell->class) ? cell->weight_sq : 0;
}

void fm_query_need_nodes(struct fm_query_data *d)
{
	if (d->total)
		return;
	const struct fm_view *view = &d->a->view;
	const struct fm_tally *tally = &d->a->tally;
	d->self = fm_alloc((view->nodes.n + 1) * sizeof(*d->self));
	d->total = fm_alloc((view->nodes.n + 1) * sizeof(*d->total));
	for (size_t i = 0; i < tally->cells.n; i++)
		add_cell(&d->self[fm_view_node(view, tally->cells.items[i].stack_id)], &tally->cells.items[i]);
	for (size_t i = view->nodes.n; i-- > 0;) { // what is below a node comes after it
		fm_weight_add(&d->total[i], &d->self[i]);
		if (i)
			fm_weight_add(&d->total[view->nodes.items[i].parent], &d->total[i]);
	}
}

static int compare_stacks(const void *pa, const void *pb)
{
	const struct fm_query_stack *a = pa, *b = pb;
	uint64_t ca = fm_weight_cpu_ns(&a->weight), cb = fm_weight_cpu_ns(&b->weight);
	return ca != cb ? (ca < cb) - (ca > cb) : (a->node > b->node) - (a->node < b->node);
}

void fm_query_need_stacks(struct fm_query_data *d)
{
	if (d->has_stacks)
		return;
	d->has_stacks = true;
	const struct fm_tally *tally = &d->a->tally;
	uint32_t *row_of = fm_alloc((d->a->view.nodes.n + 1) * sizeof(*row_of)); // + 1
	for (size_t i = 0; i < tally->cells.n; i++) {
		const struct fm_cell *cell = &tally->cells.items[i];
		uint32_t node = fm_view_node(&d->a->view, cell->stack_id);
		if (!row_of[node]) {
			fm_vec_push(&d->stacks, (struct fm_query_stack){ .node = node });
			row_of[node] = (uint32_t)d->stacks.n;
		}
		struct fm_query_stack *stack = &d->stacks.items[row_of[node] - 1];
		add_cell(&stack->weight, cell);
		*(fm_class_is_cpu(cell->class) ? &stack->n_cpu : &stack->n_waits) += cell->n;
	}
	free(row_of);
	if (d->stacks.n)
		qsort(d->stacks.items, d->stacks.n, sizeof(*d->stacks.items), compare_stacks);
}

static int compare_waits(const void *pa, const void *pb)
{
	const struct fm_query_wait *a = pa, *b = pb;
	if (a->ns != b->ns)
		return (a->ns < b->ns) - (a->ns > b->ns);
	if (a->thread_id != b->thread_id)
		return (a->thread_id > b->thread_id) - (a->thread_id < b->thread_id);
	return a->node != b->node ? (a->node > b->node) - (a->node < b->node) : a->class - b->class;
}

void fm_query_need_waits(struct fm_query_data *d)
{
	if (d->has_waits)
		return;
	d->has_waits = true;
	const struct fm_tally *tally = &d->a->tally;
	struct fm_map index = {
		0
	}; // a node of a thread -> the row of FM_CLASS_GIL_WAIT; that of FM_CLASS_WAIT is next
	for (size_t i = 0; i < tally->cells.n; i++) {
		const struct fm_cell *cell = &tally->cells.items[i];
		if (fm_class_is_cpu(cell->class))
			continue;
		uint32_t node = fm_view_node(&d->a->view, cell->stack_id);
		bool is_new;
		uint64_t *at = fm_map_at(&index, (uint64_t)cell->thread_id << 32 | node, &is_new);
		if (is_new) {
			*at = d->waits.n;
			fm_vec_push(&d->waits, (struct fm_query_wait){ cell->thread_id, node, FM_CLASS_GIL_WAIT });
			fm_vec_push(&d->waits, (struct fm_query_wait){ cell->thread_id, node, FM_CLASS_WAIT });
		}
		struct fm_query_wait *wait = &d->waits.items[*at + (cell->class == FM_CLASS_WAIT)];
		wait->n += cell->n;
		wait->ns += cell->weight_ns;
	}
	fm_map_deinit(&index);
	size_t kept = 0;
	for (size_t i = 0; i < d->waits.n; i++)
		if (d->waits.items[i].n)
			d->waits.items[kept++] = d->waits.items[i];
	d->waits.n = kept;
	if (kept)
		qsort(d->waits.items, kept, sizeof(*d->waits.items), compare_waits);
}

static int compare_allocs(const void *pa, const void *pb)
{
	const struct fm_query_alloc *a = pa, *b = pb;
	for (unsigned k = 0; k < FM_N_HEAP_KINDS; k++)
		if (a->bytes[k] != b->bytes[k])
			return (a->bytes[k] < b->bytes[k]) - (a->bytes[k] > b->bytes[k]);
	if (a->thread_id != b->thread_id)
		return (a->thread_id > b->thread_id) - (a->thread_id < b->thread_id);
	return (a->node > b->node) - (a->node < b->node);
}

void fm_query_need_allocs(struct fm_query_data *d)
{
	if (d->has_allocs)
		return;
	d->has_allocs = true;
	struct fm_map index = { 0 };
	for (size_t i = 0; i < d->a->heap.stacks.n; i++) {
		const struct fm_heap_stack_row *row = &d->a->heap.stacks.items[i];
		uint32_t node = fm_view_node(&d->a->view, row->stack_id);
		bool is_new;
		uint64_t *at = fm_map_at(&index, (uint64_t)row->thread_id << 32 | node, &is_new);
		if (is_new) {
			*at = d->allocs.n;
			fm_vec_push(&d->allocs, (struct fm_query_alloc){ row->thread_id, node, { 0 } });
		}
		uint64_t bytes[FM_N_HEAP_KINDS];
		fm_heap_stack_bytes(row, bytes);
		for (unsigned k = 0; k < FM_N_HEAP_KINDS; k++)
			d->allocs.items[*at].bytes[k] += bytes[k];
	}
	fm_map_deinit(&index);
	if (d->allocs.n)
		qsort(d->allocs.items, d->allocs.n, sizeof(*d->allocs.items), compare_allocs);
}

void fm_query_need_libraries(struct fm_query_data *d)
{
	if (!d->has_libraries)
		fm_libraries_build(&d->libraries, &d->a->tally, &d->a->view, d->a->symbolizer);
	d->has_libraries = true;
}

static struct fm_str keep(struct fm_query_data *d, struct fm_str s)
{
	return (struct fm_str){ fm_arena_strdup(&d->arena, s.p, s.len), s.len };
}

static void add_coverage(void *ctx, struct fm_str what, struct fm_str why)
{
	struct fm_query_data *d = ctx;
	fm_vec_push(&d->coverage, (struct fm_query_coverage){ keep(d, what), keep(d, why) });
}

void fm_query_need_coverage(struct fm_query_data *d)
{
	if (!d->has_coverage)
		fm_facts_coverage(d->a, fm_query_facts(d), d->summary, add_coverage, d);
	d->has_coverage = true;
}

const struct fm_node *fm_query_payer(struct fm_query_data *d, uint32_t node)
{
	const struct fm_view *view = &d->a->view;
	if (!d->payers)
		d->payers = fm_attribution_find(d->a->profile, &d->a->tally, view, d->a->symbolizer);
	uint32_t line = fm_attribution_line(&d->payers[node], d->a->options.detailed);
	return line ? &view->nodes.items[line - 1] : NULL;
}
