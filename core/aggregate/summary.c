#include "aggregate/summary.h"

#include <stdlib.h>
#include <string.h>

#include "aggregate/payers.h"

double fm_summary_plus_minus_s(const struct fm_summary *t, const struct fm_weight *part)
{
	return fm_plus_minus_s(fm_seconds(fm_weight_cpu_ns(part)), part->cpu_sq,
			       fm_seconds(fm_weight_cpu_ns(&t->total)), t->total.cpu_sq);
}

static struct fm_weight weight_of_cell(const struct fm_cell *cell)
{
	struct fm_weight w = { 0 };
	w.ns[cell->class] = cell->weight_ns;
	if (fm_class_is_cpu(cell->class)) {
		w.n = cell->n;
		w.cpu_sq = cell->weight_sq;
	}
	return w;
}

static bool is_empty(const struct fm_weight *w)
{
	return !w->n && !w->ns[FM_CLASS_WAIT] && !w->ns[FM_CLASS_GIL_WAIT];
}

struct build {
	struct fm_summary *t;
	const struct fm_view *view;
	const struct fm_symbolizer *symbolizer;
	const struct fm_view_options *options;
	// Samples end in few of the nodes: those have a sum each, and the others share an empty one.
	uint32_t *sum_of;              // by node: into sums
	FM_VEC(struct fm_weight) sums; // [0] is empty
};

static const struct fm_weight *self_of(const struct build *b, uint32_t node)
{
	return &b->sums.items[b->sum_of[node]];
}

static struct fm_weight *sum_at(struct build *b, uint32_t node)
{
	if (!b->sum_of[node]) {
		b->sum_of[node] = (uint32_t)b->sums.n;
		fm_vec_push(&b->sums, (struct fm_weight){ { 0 } });
	}
	return &b->sums.items[b->sum_of[node]];
}

static void add_cells(struct build *b, const struct fm_profile *profile, const struct fm_tally *tally)
{
	struct fm_summary *t = b->t;
	fm_vec_grow_to(&t->threads, tally->threads.n);
	fm_vec_grow_to(&t->processes, profile->processes.n);
	for (size_t i = 0; i < tally->cells.n; i++) {
		const struct fm_cell *cell = &tally->cells.items[i];
		struct fm_weight w = weight_of_cell(cell);
		fm_weight_add(&t->total, &w);
		t->class_sq[cell->class] += cell->weight_sq;
		fm_weight_add(sum_at(b, fm_view_node(b->view, cell->stack_id)), &w);
		struct fm_thread_row *thread = &t->threads.items[cell->thread_id];
		thread->n += cell->n;
		fm_weight_add(&thread->weight, &w);
		uint8_t flags = cell->stack_id < b->view->n_stacks ? b->view->stack_flags[cell->stack_id] : 0;
		if (flags & FM_STACK_HAS_ERROR)
			t->n_failed_unwinds += cell->n;
		if (!(flags & FM_STACK_HAS_PYTHON))
			fm_weight_add(&t->outside_python, &w);
	}
	for (uint32_t p = 0; p < t->processes.n; p++)
		t->processes.items[p].process_id = p;
	for (uint32_t i = 0; i < t->threads.n; i++) {
		struct fm_thread_row *thread = &t->threads.items[i];
		thread->thread_id = i;
		uint32_t process = i < profile->threads.n ? profile->threads.items[i].process_id : FM_NO_ID;
		if (process < t->processes.n) {
			fm_weight_add(&t->processes.items[process].weight, &thread->weight);
			t->processes.items[process].n_threads++;
		}
	}
}

static void mark_users(struct build *b, const struct fm_payer *payers)
{
	fm_vec_grow_to(&b->t->is_users, fm_symbolizer_n_functions(b->symbolizer));
	for (uint32_t i = 1; i < b->view->nodes.n; i++)
		if (payers[i].user == i + 1)
			b->t->is_users.items[b->view->nodes.items[i].function_id] = true;
}

static void add_functions(struct build *b, const struct fm_payer *payers)
{
	const struct fm_view *v = b->view;
	struct fm_summary *t = b->t;
	fm_vec_grow_to(&t->functions, fm_symbolizer_n_functions(b->symbolizer));
	// Children lists, so that one walk down the tree knows which functions are on the path: a recursive function's
	// total is the sum over its outermost occurrences.
	uint32_t n = (uint32_t)v->nodes.n;
	uint32_t *first_child = fm_alloc(n * sizeof(*first_child)), *sibling = fm_alloc(n * sizeof(*sibling));
	uint32_t *n_on_path = fm_alloc((t->functions.n + 1) * sizeof(*n_on_path));
	bool *seen = fm_alloc(t->functions.n + 1);
	for (uint32_t i = n; i-- > 1;) {
		uint32_t parent = v->nodes.items[i].parent;
		sibling[i] = first_child[parent];
		first_child[parent] = i;

		struct fm_function_row *row = &t->functions.items[v->nodes.items[i].function_id];
		row->is_always_inlined =
			v->nodes.items[i].is_inlined && (!seen[row - t->functions.items] || row->is_always_inlined);
		seen[row - t->functions.items] = true;
		const struct fm_weight *self = self_of(b, i);
		if (is_empty(self)) // most nodes: samples end in leaves
			continue;
		fm_weight_add(&row->self, self);
		bool is_python =
			fm_symbolizer_function(b->symbolizer, v->nodes.items[i].function_id)->kind == FM_FRAME_PYTHON;
		if (!is_python)
			fm_weight_add(&row->charged, self);
		if (payers[i].own)
			fm_weight_add(&t->functions.items[v->nodes.items[payers[i].own - 1].function_id].charged, self);
		uint32_t payer = fm_payer_line(&payers[i], b->options->detailed);
		if (payer)
			fm_weight_add(&t->functions.items[v->nodes.items[payer - 1].function_id].paid, self);
	}
	// One sum for each depth instead of each node: what ends in the node now at that depth or above it.
	FM_VEC(struct fm_weight) sums = { 0 };
	for (uint32_t node = first_child[0]; node;) {
		n_on_path[v->nodes.items[node].function_id]++;
		fm_vec_grow_to(&sums, (size_t)v->nodes.items[node].depth + 1);
		sums.items[v->nodes.items[node].depth] = *self_of(b, node);
		uint32_t next = first_child[node];
		while (!next && node) { // up, until there is a way to the side
			uint32_t function_id = v->nodes.items[node].function_id, depth = v->nodes.items[node].depth;
			if (--n_on_path[function_id] == 0)
				fm_weight_add(&t->functions.items[function_id].total, &sums.items[depth]);
			fm_weight_add(&sums.items[depth - 1], &sums.items[depth]);
			next = sibling[node];
			node = v->nodes.items[node].parent;
		}
		node = next;
	}
	fm_vec_deinit(&sums);
	for (uint32_t i = 0; i < t->functions.n; i++)
		t->functions.items[i].function_id = i;
	free(first_child);
	free(sibling);
	free(n_on_path);
	free(seen);
}

static void add_lines(struct build *b, const struct fm_payer *payers)
{
	struct fm_map index = { 0 };
	FM_VEC(uint64_t) most = {
		0
	}; // by row: the largest single (function, line) share so far, to name the row after
	for (uint32_t i = 1; i < b->view->nodes.n; i++) {
		const struct fm_weight *self = self_of(b, i);
		uint64_t cpu_ns = fm_weight_cpu_ns(self);
		if (!cpu_ns && !self->ns[FM_CLASS_WAIT] && !self->ns[FM_CLASS_GIL_WAIT] && !self->n)
			continue;
		uint32_t payer = fm_payer_line(&payers[i], b->options->detailed);
		if (!payer)
			continue;
		const struct fm_node *node = &b->view->nodes.items[payer - 1];
		uint32_t file_id = fm_symbolizer_function(b->symbolizer, node->function_id)->file_id;
		bool is_new;
		uint64_t *slot = fm_map_at(&index, (uint64_t)file_id << 32 | node->line, &is_new);
		if (is_new) {
			*slot = b->t->lines.n;
			fm_vec_push(&b->t->lines,
				    (struct fm_line_row){ node->function_id, file_id, node->line, { { 0 } } });
			fm_vec_push(&most, 0);
		}
		struct fm_line_row *row = &b->t->lines.items[*slot];
		fm_weight_add(&row->weight, self);
		if (cpu_ns > most.items[*slot]) {
			most.items[*slot] = cpu_ns;
			row->function_id = node->function_id;
		}
	}
	fm_map_deinit(&index);
	fm_vec_deinit(&most);
}

#define ORDER(a, b) (((a) > (b)) - ((a) < (b)))

static int compare_functions(const void *pa, const void *pb)
{
	const struct fm_function_row *a = pa, *b = pb;
	uint64_t ta = fm_weight_cpu_ns(&a->total), tb = fm_weight_cpu_ns(&b->total);
	uint64_t sa = fm_weight_cpu_ns(&a->self), sb = fm_weight_cpu_ns(&b->self);
	return ta != tb ? ORDER(tb, ta) : sa != sb ? ORDER(sb, sa) : ORDER(a->function_id, b->function_id);
}

static int compare_lines(const void *pa, const void *pb)
{
	const struct fm_line_row *a = pa, *b = pb;
	uint64_t ta = fm_weight_cpu_ns(&a->weight), tb = fm_weight_cpu_ns(&b->weight);
	return ta != tb                   ? ORDER(tb, ta)
	       : a->file_id != b->file_id ? ORDER(a->file_id, b->file_id)
					  : ORDER(a->line, b->line);
}

static int compare_threads(const void *pa, const void *pb)
{
	const struct fm_thread_row *a = pa, *b = pb;
	uint64_t ta = fm_weight_cpu_ns(&a->weight), tb = fm_weight_cpu_ns(&b->weight);
	return ta != tb ? ORDER(tb, ta) : ORDER(a->thread_id, b->thread_id);
}

void fm_summary_build(struct fm_summary *t, const struct fm_profile *profile, const struct fm_tally *tally,
		      const struct fm_view *view, const struct fm_symbolizer *symbolizer,
		      const struct fm_view_options *options)
{
	*t = (struct fm_summary){ 0 };
	struct build b = { t, view, symbolizer, options, fm_alloc(view->nodes.n * sizeof(uint32_t)), { 0 } };
	fm_vec_reserve(&b.sums, FM_MIN(tally->cells.n, view->nodes.n) + 1);
	fm_vec_push(&b.sums, (struct fm_weight){ { 0 } });
	add_cells(&b, profile, tally);
	struct fm_payer *payers = fm_payers_find(view, symbolizer);
	mark_users(&b, payers);
	add_functions(&b, payers);
	add_lines(&b, payers);
	free(payers);
	free(b.sum_of);
	fm_vec_deinit(&b.sums);

	size_t kept = 0; // folded frames left functions without a single sample
	for (size_t i = 0; i < t->functions.n; i++)
		if (!is_empty(&t->functions.items[i].total))
			t->functions.items[kept++] = t->functions.items[i];
	t->functions.n = kept;
	if (t->functions.n)
		qsort(t->functions.items, t->functions.n, sizeof(*t->functions.items), compare_functions);
	if (t->lines.n)
		qsort(t->lines.items, t->lines.n, sizeof(*t->lines.items), compare_lines);
	if (t->threads.n)
		qsort(t->threads.items, t->threads.n, sizeof(*t->threads.items), compare_threads);
}

void fm_summary_deinit(struct fm_summary *t)
{
	fm_vec_deinit(&t->is_users);
	fm_vec_deinit(&t->functions);
	fm_vec_deinit(&t->lines);
	fm_vec_deinit(&t->threads);
	fm_vec_deinit(&t->processes);
	*t = (struct fm_summary){ 0 };
}
