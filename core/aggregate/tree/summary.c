// SPDX-License-Identifier: Apache-2.0
#include "aggregate/tree/summary.h"

#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "aggregate/tree/attribution.h"

double fm_summary_plus_minus_s(const struct fm_summary *t, const struct fm_weight *part)
{
	double looked_share = t->total.n ? (double)part->n / (double)t->total.n : 0;
	return fm_plus_minus_s(fm_seconds(fm_weight_cpu_ns(part)), part->cpu_sq, looked_share,
			       fm_seconds(fm_weight_cpu_ns(&t->total)), t->total.cpu_sq, t->heavy_sq, t->misplaced_s);
}

// How far the handler lets system time run ahead of the kernel's account, which lags by its clock
// tick: once for each thread (sigsafe/tick/tick.c, collect/observe/attached_system.c).
#define ACCOUNT_LAG_S 0.008

// Of a part of a capture as much as it has of the samples.
static double misplaced_s(const struct fm_profile *profile, const struct fm_summary *t)
{
	const struct fm_weight *total = &t->total;
	double n_taken = (double)fm_profile_meta_u64(profile, "n_taken");
	if (n_taken <= 0)
		return 0;
	double whole_s = fm_seconds(fm_weight_cpu_ns(total)), lag_s = 0;
	double disturbed_s = fm_seconds(fm_profile_meta_u64(profile, "disturbed_ns")) * (double)total->n / n_taken;
	double displaced_s = whole_s * (double)fm_profile_meta_u64(profile, "n_displaced") / n_taken;
	for (size_t i = 0; i < t->threads.n; i++)
		lag_s += fmin(fm_seconds(t->threads.items[i].weight.ns[FM_CLASS_SYSTEM]), ACCOUNT_LAG_S);
	double system_s = fm_seconds(total->ns[FM_CLASS_SYSTEM]);
	return fmin(fm_misplaced_s(disturbed_s, displaced_s, system_s, lag_s), whole_s);
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

// Of a Python process, but not the one that it began with.
static bool is_side_thread(const struct fm_profile *profile, uint32_t thread_id)
{
	if (thread_id >= profile->threads.n)
		return false;
	const struct fm_thread *thread = &profile->threads.items[thread_id];
	const struct fm_process_info *process = &profile->processes.items[thread->process_id].info;
	return process->python_version.len && thread->tid != process->pid;
}

static void add_cells(struct build *b, const struct fm_profile *profile, const struct fm_tally *tally)
{
	struct fm_summary *t = b->t;
	fm_vec_grow_to(&t->threads, tally->threads.n);
	fm_vec_grow_to(&t->processes, profile->processes.n);
	for (size_t i = 0; i < tally->cells.n; i++) {
		const struct fm_cell *cell = &tally->cells.items[i];
		struct fm_weight w = fm_cell_weight(cell);
		fm_weight_add(&t->total, &w);
		t->class_sq[cell->class] += cell->weight_sq;
		struct fm_thread_row *thread = &t->threads.items[cell->thread_id];
		thread->n += cell->n;
		fm_weight_add(&thread->weight, &w);
		uint8_t flags = cell->stack_id < b->view->n_stacks ? b->view->stack_flags[cell->stack_id] : 0;
		if (flags & FM_STACK_HAS_ERROR)
			t->n_failed_unwinds += cell->n;
		if (flags & FM_STACK_IS_WORKER)
			fm_weight_add(&t->workers, &w);
		if (flags & FM_STACK_HAS_PYTHON)
			continue;
		fm_weight_add(&t->outside_python, &w);
		if (is_side_thread(profile, cell->thread_id))
			fm_weight_add(&t->untied, &w);
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

static void mark_users(struct build *b, const struct fm_attribution *payers)
{
	fm_vec_grow_to(&b->t->is_users, fm_symbolizer_n_functions(b->symbolizer));
	for (uint32_t i = 1; i < b->view->nodes.n; i++)
		if (payers[i].user == i + 1)
			b->t->is_users.items[b->view->nodes.items[i].function_id] = true;
}

#define AHEAD 16 // cells that are fetched while those before them are added

// The cells of a node are cells[order[first[node]]] and those behind it, up to those of the next
// node. Sorted by counting.
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
		struct fm_weight w = fm_cell_weight(&tally->cells.items[c->order[k]]);
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
	// One sum for each depth instead of each node: of what ends in the node now at that depth
	// or below it.
	FM_VEC(struct step) path;
	uint32_t *n_on_path;   // by function
	uint8_t *seen;         // by function: how it was called
	struct fm_map lines;   // (file, line) -> row
	FM_VEC(uint64_t) most; // by row: the largest share of one function so far, to name the row after
	struct fm_map workers; // row << 32 | thread: it worked for the line
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

// Its row.
static uint32_t add_to_line(struct build *b, struct walk *w, const struct fm_node *node, const struct fm_weight *self)
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
	return (uint32_t)*slot;
}

// All cells of a node lie at or below the same line.
static void add_workers(struct build *b, struct walk *w, const struct cells_by_node *c, const struct fm_tally *tally,
			uint32_t node, uint32_t row_idx)
{
	struct fm_line_row *row = &b->t->lines.items[row_idx];
	for (uint32_t k = c->first[node]; k < c->first[node + 1]; k++) {
		const struct fm_cell *cell = &tally->cells.items[c->order[k]];
		if (!(b->view->stack_flags[cell->stack_id] & FM_STACK_IS_WORKER))
			continue;
		bool is_new;
		fm_map_at(&w->workers, (uint64_t)row_idx << 32 | cell->thread_id, &is_new);
		row->n_workers += is_new;
		row->worker_ns += cell->weight_ns;
	}
}

// What ends in a node is the function's own, and is charged to who pays for it. The row of the line
// that does, or FM_NO_ID.
static uint32_t charge(struct build *b, struct walk *w, uint32_t function_id, const struct fm_attribution *payer,
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
	uint32_t line = fm_attribution_line(payer, b->options->detailed);
	if (!line)
		return FM_NO_ID;
	fm_weight_add(&rows[nodes[line - 1].function_id].paid, self);
	return add_to_line(b, w, &nodes[line - 1], self);
}

// One walk, as everything is in the order of the nodes and too large to be looked at twice.
static void add_functions_and_lines(struct build *b, const struct fm_tally *tally, const struct fm_attribution *payers)
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
		if (is_empty(&self)) // most nodes: samples end in leaves
			continue;
		uint32_t row = charge(b, &w, node->function_id, &payers[i], &self);
		if (row != FM_NO_ID && b->t->workers.n)
			add_workers(b, &w, &cells, tally, i, row);
	}
	leave(b, &w, 0);
	for (uint32_t i = 0; i < n_functions; i++) {
		b->t->functions.items[i].function_id = i;
		b->t->functions.items[i].is_always_inlined = w.seen[i] == INLINED;
	}
	fm_vec_deinit(&w.path);
	fm_vec_deinit(&w.most);
	fm_map_deinit(&w.lines);
	fm_map_deinit(&w.workers);
	free(w.n_on_path);
	free(w.seen);
	free(cells.first);
	free(cells.order);
}

static int compare_functions(const void *pa, const void *pb)
{
	const struct fm_function_row *a = pa, *b = pb;
	uint64_t ta = fm_weight_cpu_ns(&a->total), tb = fm_weight_cpu_ns(&b->total);
	uint64_t sa = fm_weight_cpu_ns(&a->self), sb = fm_weight_cpu_ns(&b->self);
	return ta != tb ? FM_ORDER(tb, ta) : sa != sb ? FM_ORDER(sb, sa) : FM_ORDER(a->function_id, b->function_id);
}

static int compare_lines(const void *pa, const void *pb)
{
	const struct fm_line_row *a = pa, *b = pb;
	uint64_t ta = fm_weight_cpu_ns(&a->weight), tb = fm_weight_cpu_ns(&b->weight);
	return ta != tb                   ? FM_ORDER(tb, ta)
	       : a->file_id != b->file_id ? FM_ORDER(a->file_id, b->file_id)
					  : FM_ORDER(a->line, b->line);
}

static int compare_threads(const void *pa, const void *pb)
{
	const struct fm_thread_row *a = pa, *b = pb;
	uint64_t ta = fm_weight_cpu_ns(&a->weight), tb = fm_weight_cpu_ns(&b->weight);
	return ta != tb ? FM_ORDER(tb, ta) : FM_ORDER(a->thread_id, b->thread_id);
}

void fm_summary_build(struct fm_summary *t, const struct fm_profile *profile, const struct fm_tally *tally,
		      const struct fm_view *view, const struct fm_symbolizer *symbolizer,
		      const struct fm_view_options *options)
{
	*t = (struct fm_summary){ 0 };
	struct build b = { t, view, symbolizer, options };
	add_cells(&b, profile, tally);
	t->heavy_sq = tally->heavy_sq;
	t->misplaced_s = misplaced_s(profile, t);
	struct fm_attribution *payers = fm_attribution_find(profile, tally, view, symbolizer);
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
