// SPDX-License-Identifier: Apache-2.0
#include "aggregate/analysis/focus.h"

#include <stdlib.h>

// Where a node's stack meets what is looked at. Node + 1 each, 0 = it does not.
struct meeting {
	uint32_t outer, inner; // the outermost and the innermost time
	uint32_t below;        // what the innermost one called on the way to this node
};

struct build {
	struct fm_focus *f;
	const struct fm_analysis *a;
	struct fm_map callers, callees, lines, threads; // key -> row
};

static bool is_meant(const struct build *b, const struct fm_node *node)
{
	const struct fm_focus_place *place = &b->f->place;
	if (place->function_id != FM_NO_ID)
		return node->function_id == place->function_id;
	return node->line == place->line && place->line &&
	       fm_analysis_function(b->a, node->function_id)->file_id == place->file_id;
}

// Parents come first, so one pass inherits downwards.
static struct meeting *meet(const struct build *b)
{
	const struct fm_view *v = &b->a->view;
	struct meeting *meetings = fm_alloc((v->nodes.n + 1) * sizeof(*meetings));
	for (uint32_t i = 1; i < v->nodes.n; i++) {
		const struct fm_node *node = &v->nodes.items[i];
		const struct meeting *above = &meetings[node->parent];
		struct meeting *here = &meetings[i];
		*here = *above;
		if (is_meant(b, node))
			*here = (struct meeting){ above->outer ? above->outer : i + 1, i + 1, 0 };
		else if (above->inner && !above->below)
			here->below = i + 1;
	}
	return meetings;
}

#define ROW_AT(rows, map, key, ...)                              \
	({                                                       \
		bool is_new_;                                    \
		uint64_t *slot_ = fm_map_at(map, key, &is_new_); \
		if (is_new_) {                                   \
			*slot_ = (rows)->n;                      \
			fm_vec_push(rows, __VA_ARGS__);          \
		}                                                \
		&(rows)->items[*slot_];                          \
	})

static void add_caller(struct build *b, uint32_t outer, const struct fm_weight *w)
{
	uint32_t parent = b->a->view.nodes.items[outer].parent;
	const struct fm_node *caller = &b->a->view.nodes.items[parent];
	uint32_t function_id = parent ? caller->function_id : FM_NO_ID, line = parent ? caller->line : 0;
	struct fm_focus_row *row = ROW_AT(&b->f->callers, &b->callers, (uint64_t)function_id << 32 | line,
					  (struct fm_focus_row){ function_id, line, { { 0 } } });
	fm_weight_add(&row->weight, w);
}

static void add_callee(struct build *b, uint32_t node, const struct fm_weight *w)
{
	uint32_t function_id = b->a->view.nodes.items[node].function_id;
	struct fm_focus_row *row =
		ROW_AT(&b->f->callees, &b->callees, function_id, (struct fm_focus_row){ function_id, 0, { { 0 } } });
	fm_weight_add(&row->weight, w);
}

static void add_line(struct build *b, uint32_t line, const struct fm_weight *w)
{
	struct fm_focus_line *row =
		ROW_AT(&b->f->lines, &b->lines, line, (struct fm_focus_line){ line, { { 0 } }, NULL, NULL });
	fm_weight_add(&row->weight, w);
}

static void add_cells(struct build *b)
{
	struct meeting *meetings = meet(b);
	for (size_t i = 0; i < b->a->tally.cells.n; i++) {
		const struct fm_cell *cell = &b->a->tally.cells.items[i];
		uint32_t leaf = fm_view_node(&b->a->view, cell->stack_id);
		const struct meeting *m = &meetings[leaf];
		if (!m->inner)
			continue;
		struct fm_weight w = fm_cell_weight(cell);
		fm_weight_add(&b->f->total, &w);
		add_caller(b, m->outer - 1, &w);
		add_line(b, b->a->view.nodes.items[m->inner - 1].line, &w);
		if (m->below)
			add_callee(b, m->below - 1, &w);
		else
			fm_weight_add(&b->f->self, &w);
		struct fm_focus_thread *thread = ROW_AT(&b->f->threads, &b->threads, cell->thread_id,
							(struct fm_focus_thread){ cell->thread_id, { { 0 } } });
		fm_weight_add(&thread->weight, &w);
	}
	free(meetings);
}

static uint32_t file_of(const struct build *b)
{
	const struct fm_focus_place *place = &b->f->place;
	return place->function_id != FM_NO_ID ? fm_analysis_function(b->a, place->function_id)->file_id
					      : place->file_id;
}

// The rows of lines are the report's: a comprehension's are its line's.
static void add_own(struct build *b, const struct fm_summary *t)
{
	struct fm_focus *f = b->f;
	uint32_t file_id = file_of(b);
	for (size_t i = 0; i < t->functions.n; i++)
		if (t->functions.items[i].function_id == f->place.function_id)
			f->own = t->functions.items[i].paid;
	for (size_t i = 0; i < t->lines.n; i++) {
		const struct fm_line_row *row = &t->lines.items[i];
		const uint64_t *at = row->file_id == file_id ? fm_map_find(&b->lines, row->line) : NULL;
		if (at)
			f->lines.items[*at].own = row;
		if (at && f->place.function_id == FM_NO_ID)
			f->own = row->weight;
	}
}

static void add_memory(struct build *b)
{
	struct fm_focus *f = b->f;
	const struct fm_heap *heap = &b->a->heap;
	bool is_line = f->place.function_id == FM_NO_ID;
	uint32_t file_id = file_of(b);
	for (size_t i = 0; i < heap->functions.n && !is_line; i++)
		if (heap->functions.items[i].function_id == f->place.function_id)
			f->memory = &heap->functions.items[i].self;
	for (size_t i = 0; i < heap->lines.n; i++) {
		const struct fm_heap_line_row *row = &heap->lines.items[i];
		bool is_known = row->file_id == file_id && fm_map_find(&b->lines, row->line);
		bool is_it = is_line ? row->file_id == file_id && row->line == f->place.line
				     : row->function_id == f->place.function_id;
		if (!is_it && !is_known)
			continue;
		add_line(b, row->line, &(struct fm_weight){ { 0 } });
		f->lines.items[*fm_map_find(&b->lines, row->line)].memory = row;
		if (is_line)
			f->memory = &row->f;
	}
	for (size_t i = 0; i < heap->leaks.n; i++) {
		const struct fm_heap_leak_row *leak = &heap->leaks.items[i];
		if (is_line ? leak->file_id == f->place.file_id && leak->line == f->place.line
			    : leak->function_id == f->place.function_id)
			fm_vec_push(&f->leaks, leak);
	}
}

static uint64_t all_ns(const struct fm_weight *w)
{
	return fm_weight_cpu_ns(w) + w->ns[FM_CLASS_WAIT] + w->ns[FM_CLASS_GIL_WAIT];
}

static int compare_rows(const void *pa, const void *pb)
{
	const struct fm_focus_row *a = pa, *b = pb;
	uint64_t na = all_ns(&a->weight), nb = all_ns(&b->weight);
	return na != nb                           ? FM_ORDER(nb, na)
	       : a->function_id != b->function_id ? FM_ORDER(a->function_id, b->function_id)
						  : FM_ORDER(a->line, b->line);
}

static int compare_lines(const void *pa, const void *pb)
{
	const struct fm_focus_line *a = pa, *b = pb;
	uint64_t na = all_ns(&a->weight), nb = all_ns(&b->weight);
	uint64_t ma = a->memory ? a->memory->f.peak_bytes : 0, mb = b->memory ? b->memory->f.peak_bytes : 0;
	return na != nb ? FM_ORDER(nb, na) : ma != mb ? FM_ORDER(mb, ma) : FM_ORDER(a->line, b->line);
}

static int compare_threads(const void *pa, const void *pb)
{
	const struct fm_focus_thread *a = pa, *b = pb;
	uint64_t na = all_ns(&a->weight), nb = all_ns(&b->weight);
	return na != nb ? FM_ORDER(nb, na) : FM_ORDER(a->thread_id, b->thread_id);
}

#define SORT(rows, compare)                                                               \
	do {                                                                              \
		if ((rows)->n)                                                            \
			qsort((rows)->items, (rows)->n, sizeof(*(rows)->items), compare); \
	} while (0)

void fm_focus_build(struct fm_focus *f, struct fm_analysis *a, const struct fm_focus_place *place)
{
	*f = (struct fm_focus){ .place = *place };
	struct build b = { .f = f, .a = a };
	if (place->function_id != FM_NO_ID || place->traced == FM_NO_ID) {
		add_cells(&b);
		add_memory(&b);
		add_own(&b, fm_analysis_summary(a));
	}
	SORT(&f->callers, compare_rows);
	SORT(&f->callees, compare_rows);
	SORT(&f->lines, compare_lines);
	SORT(&f->threads, compare_threads);
	fm_map_deinit(&b.callers);
	fm_map_deinit(&b.callees);
	fm_map_deinit(&b.lines);
	fm_map_deinit(&b.threads);
}

void fm_focus_deinit(struct fm_focus *f)
{
	fm_vec_deinit(&f->callers);
	fm_vec_deinit(&f->callees);
	fm_vec_deinit(&f->lines);
	fm_vec_deinit(&f->threads);
	fm_vec_deinit(&f->leaks);
}
