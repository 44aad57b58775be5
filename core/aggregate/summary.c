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
};

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

#define AHEAD 16 // cells that are fetched while those before them are added

// The cells of a node are cells[order[first[node]]] and those behind it, up to those of the next node. Sorted by counting.
struct cells_by_node {
	uint32_t *first, *order;
};

static struct cells_by_node sort_cells(const struct fm_view *v, const struct fm_tally *tally)
{
	size_t n = tally->cells.n, n_nodes = v->nodes.n;
	struct cells_by_node c = { fm_alloc((n_nodes + 2) * sizeof(uint32_t)),
				   fm_alloc((n + AHEAD) * sizeof(uint32_t)) };
	uint32_t *place = c.first + 1; // while sorting: where the next cell of the node goes
	for (size_t i = 0; i < n; i++)
		place[fm_view_node(v, tally->cells.items[i].stack_id)]++;
	for (size_t i = 0, sum = 0; i <= n_nodes; i++) {
		uint32_t here = place[i];
		place[i] = (uint32_t)sum;
		sum += here;
	}
	for (size_t i = 0; i < n; i++)
		c.order[place[fm_view_node(v, tally->cells.items[i].stack_id)]++] = (uint32_t)i;
	return c;
}

static struct fm_weight sum_of_cells(const struct cells_by_node *c, const struct fm_tally *tally, uint32_t node)
{
	struct fm_weight self = { 0 };
	for (uint32_t k = c->first[node]; k < c->first[node + 1]; k++) {
		__builtin_prefetch(&tally->cells.items[c->order[k + AHEAD - 1]]);
		struct fm_weight w = weight_of_cell(&tally->cells.items[c->order[k]]);
		fm_weight_add(&self, &w);
	}
	return self;
}

struct step {
	uint32_t function_id;
	struct fm_weight sum;
};

// The place of the walk through the tree, and what it adds up.
struct walk {
	// One sum for each depth instead of each node: of what ends in the node now at that depth or below it.
	FM_VEC(struct step) path;
	uint32_t *n_on_path;   // by function
	uint8_t *seen;         // by function: how it was called
	struct fm_map lines;   // (file, line) -> row
	FM_VEC(uint64_t) most; // by row: the largest share of one function so far, to name the row after
};

enum { CALLED = 1, INLINED = 2 };

// Up to the depth. A recursive function's total is the sum over its outermost occurrences.
static void leave(struct build *b, struct walk *w, uint32_t depth)
{
	while (w->path.n > depth) {
		const struct step *step = &w->path.items[--w->path.n];
		if (--w->n_on_path[step->function_id] == 0)
			fm_weight_add(&b->t->functions.items[step->function_id].total, &step->sum);
		if (w->path.n)
			fm_weight_add(&w->path.items[w->path.n - 1].sum, &step->sum);
	}
}

static void enter(struct walk *w, const struct fm_node *node, const struct fm_weight *self)
{
	fm_vec_push(&w->path, (struct step){ node->function_id, *self });
	w->n_on_path[node->function_id]++;
	w->seen[node->function_id] |= node->is_inlined ? INLINED : CALLED;
}

static void add_to_line(struct build *b, struct walk *w, const struct fm_node *node, const struct fm_weight *self)
{
	uint64_t cpu_ns = fm_weight_cpu_ns(self);
	uint32_t file_id = fm_symbolizer_function(b->symbolizer, node->function_id)->file_id;
	bool is_new;
	uint64_t *slot = fm_map_at(&w->lines, (uint64_t)file_id << 32 | node->line, &is_new);
	if (is_new) {
		*slot = b->t->lines.n;
		fm_vec_push(&b->t->lines, (struct fm_line_row){ node->function_id, file_id, node->line, { { 0 } } });
		fm_vec_push(&w->most, 0);
	}
	struct fm_line_row *row = &b->t->lines.items[*slot];
	fm_weight_add(&row->weight, self);
	if (cpu_ns > w->most.items[*slot]) {
		w->most.items[*slot] = cpu_ns;
		row->function_id = node->function_id;
	}
}

// What ends in a node is the function's own, and is charged to who pays for it.
static void charge(struct build *b, struct walk *w, uint32_t function_id, const struct fm_payer *payer,
		   const struct fm_weight *self)
{
	const struct fm_node *nodes = b->view->nodes.items;
	struct fm_function_row *rows = b->t->functions.items;
	fm_weight_add(&rows[function_id].self, self);
	const struct fm_function *f = fm_symbolizer_function(b->symbolizer, function_id);
	if (f->kind != FM_FRAME_PYTHON || f->is_ours)
		fm_weight_add(&rows[function_id].charged, self);
	if (payer->own)
		fm_weight_add(&rows[nodes[payer->own - 1].function_id].charged, self);
	uint32_t line = fm_payer_line(payer, b->options->detailed);
	if (line) {
		fm_weight_add(&rows[nodes[line - 1].function_id].paid, self);
		add_to_line(b, w, &nodes[line - 1], self);
	}
}

// One walk, as everything is in the order of the nodes and too large to be looked at twice.
static void add_functions_and_lines(struct build *b, const struct fm_tally *tally, const struct fm_payer *payers)
{
	uint32_t n_functions = fm_symbolizer_n_functions(b->symbolizer);
	fm_vec_grow_to(&b->t->functions, n_functions);
	struct walk w = { .n_on_path = fm_alloc((n_functions + 1) * sizeof(*w.n_on_path)),
			  .seen = fm_alloc(n_functions + 1) };
	struct cells_by_node cells = sort_cells(b->view, tally);
	for (uint32_t i = 1; i < b->view->nodes.n; i++) {
		const struct fm_node *node = &b->view->nodes.items[i];
		struct fm_weight self = sum_of_cells(&cells, tally, i);
		leave(b, &w, node->depth - 1);
		enter(&w, node, &self);
		if (!is_empty(&self)) // few nodes: samples end in leaves
			charge(b, &w, node->function_id, &payers[i], &self);
	}
	leave(b, &w, 0);
	for (uint32_t i = 0; i < n_functions; i++) {
		b->t->functions.items[i].function_id = i;
		b->t->functions.items[i].is_always_inlined = w.seen[i] == INLINED;
	}
	fm_vec_deinit(&w.path);
	fm_vec_deinit(&w.most);
	fm_map_deinit(&w.lines);
	free(w.n_on_path);
	free(w.seen);
	free(cells.first);
	free(cells.order);
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
	struct build b = { t, view, symbolizer, options };
	add_cells(&b, profile, tally);
	struct fm_payer *payers = fm_payers_find(profile, view, symbolizer);
	mark_users(&b, payers);
	add_functions_and_lines(&b, tally, payers);
	free(payers);

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
