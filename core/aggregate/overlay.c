#include "aggregate/overlay.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/prune.h"

#define INTERVAL 1.96

struct builder {
	struct fm_overlay *c;
	struct fm_intern keys;  // what makes two functions the same; its ids are those of c->functions
	struct fm_map children; // (parent, function) -> node
	struct fm_map cell_index, row_index, line_index;
	uint32_t *function[2]; // by function id of the side: function here + 1
};

void fm_overlay_deinit(struct fm_overlay *c)
{
	fm_vec_deinit(&c->functions);
	fm_vec_deinit(&c->nodes);
	fm_vec_deinit(&c->cells);
	fm_vec_deinit(&c->rows);
	fm_vec_deinit(&c->lines);
}

static uint32_t function_of(struct builder *b, const struct fm_analysis *a, int side, uint32_t function_id)
{
	uint32_t *known = &b->function[side][function_id];
	if (*known)
		return *known - 1;
	const struct fm_function *f = fm_analysis_function(a, function_id);
	struct fm_buf key = { 0 };
	fm_buf_u8(&key, f->kind);
	fm_buf_bytes(&key, f->module.p, f->module.len);
	fm_buf_u8(&key, 0);
	fm_buf_bytes(&key, f->full_name.p, f->full_name.len);
	bool is_new;
	uint32_t id = fm_intern_id(&b->keys, (struct fm_str){ (const char *)key.data, (uint32_t)key.len }, &is_new);
	fm_buf_deinit(&key);
	if (is_new)
		fm_vec_push(&b->c->functions, (struct fm_overlay_function){ { FM_NO_ID, FM_NO_ID } });
	if (b->c->functions.items[id].id[side] == FM_NO_ID)
		b->c->functions.items[id].id[side] = function_id;
	*known = id + 1;
	return id;
}

static void add_tree(struct builder *b, const struct fm_analysis *a, int side, size_t max_nodes)
{
	double *shares = fm_prune_shares(&a->tally, &a->view);
	struct fm_pruned tree;
	fm_prune(&tree, &a->view, shares, max_nodes);
	free(shares);
	b->c->n_left_out += tree.n_left_out;
	uint32_t *here = fm_alloc(tree.nodes.n * sizeof(*here));
	bool is_new;
	for (size_t i = 1; i < tree.nodes.n; i++) {
		struct fm_node node = tree.nodes.items[i];
		node.parent = here[node.parent];
		node.function_id = function_of(b, a, side, node.function_id);
		node.line = 0;
		uint64_t *at = fm_map_at(&b->children, (uint64_t)node.parent << 32 | node.function_id, &is_new);
		if (is_new) {
			*at = b->c->nodes.n;
			node.depth = b->c->nodes.items[node.parent].depth + 1;
			fm_vec_push(&b->c->nodes, node);
		}
		here[i] = (uint32_t)*at;
	}
	for (size_t i = 0; i < a->tally.cells.n; i++) {
		const struct fm_cell *cell = &a->tally.cells.items[i];
		uint32_t node = here[tree.kept[fm_view_node(&a->view, cell->stack_id)]];
		uint64_t *at = fm_map_at(&b->cell_index, (uint64_t)node << 8 | cell->class, &is_new);
		if (is_new) {
			*at = b->c->cells.n;
			fm_vec_push(&b->c->cells, (struct fm_overlay_cell){ .node = node, .class = cell->class });
		}
		b->c->cells.items[*at].ns[side] += cell->weight_ns;
	}
	free(here);
	fm_pruned_deinit(&tree);
}

static double variance(const struct fm_summary *t, const struct fm_weight *w)
{
	double half = fm_summary_plus_minus_s(t, w) / INTERVAL;
	return half * half;
}

static void add_rows(struct builder *b, const struct fm_analysis *a, int side)
{
	struct fm_summary t;
	fm_summary_build(&t, a->profile, &a->tally, &a->view, a->symbolizer, &a->options);
	b->c->whole_ns[side] = fm_weight_cpu_ns(&t.total);
	bool is_new;
	for (size_t i = 0; i < t.functions.n; i++) {
		const struct fm_function_row *row = &t.functions.items[i];
		uint32_t function = function_of(b, a, side, row->function_id);
		uint64_t *at = fm_map_at(&b->row_index, function, &is_new);
		if (is_new) {
			*at = b->c->rows.n;
			fm_vec_push(&b->c->rows, (struct fm_overlay_row){ .function = function });
		}
		struct fm_overlay_row *to = &b->c->rows.items[*at];
		to->self_ns[side] += fm_weight_cpu_ns(&row->self);
		to->total_ns[side] += fm_weight_cpu_ns(&row->total);
		to->self_variance[side] += variance(&t, &row->self);
		to->total_variance[side] += variance(&t, &row->total);
	}
	for (size_t i = 0; i < t.lines.n; i++) {
		const struct fm_line_row *row = &t.lines.items[i];
		uint32_t function = function_of(b, a, side, row->function_id);
		uint64_t *at = fm_map_at(&b->line_index, (uint64_t)function << 32 | row->line, &is_new);
		if (is_new) {
			*at = b->c->lines.n;
			fm_vec_push(&b->c->lines, (struct fm_overlay_row){ .function = function, .line = row->line });
		}
		struct fm_overlay_row *to = &b->c->lines.items[*at];
		const uint64_t *by_class = row->weight.ns;
		uint64_t ns = by_class[FM_CLASS_PYTHON] + by_class[FM_CLASS_NATIVE] + by_class[FM_CLASS_SYSTEM];
		double v = variance(&t, &row->weight);
		for (unsigned k = 0; side == 1 && k < FM_N_CLASSES; k++)
			to->class_ns[k] += by_class[k];
		to->self_ns[side] += ns;
		to->total_ns[side] += ns;
		to->self_variance[side] += v;
		to->total_variance[side] += v;
	}
	fm_summary_deinit(&t);
}

static uint64_t change(const uint64_t ns[2])
{
	return ns[0] > ns[1] ? ns[0] - ns[1] : ns[1] - ns[0];
}

static int compare_rows(const void *pa, const void *pb)
{
	const struct fm_overlay_row *a = pa, *b = pb;
	uint64_t ca = change(a->total_ns), cb = change(b->total_ns);
	if (ca != cb)
		return (cb > ca) - (cb < ca);
	if (a->function != b->function)
		return (a->function > b->function) - (a->function < b->function);
	return (a->line > b->line) - (a->line < b->line);
}

bool fm_overlay_is_significant(const struct fm_overlay *c, const uint64_t ns[2], const double var[2])
{
	double by_s = (double)change(ns) * 1e-9;
	double whole_s = fm_seconds(FM_MAX(c->whole_ns[0], c->whole_ns[1]));
	return by_s > INTERVAL * sqrt(var[0] + var[1]) && by_s > whole_s / 1000;
}

void fm_overlay_build(struct fm_overlay *c, const struct fm_analysis *base, const struct fm_analysis *a,
		      size_t max_nodes)
{
	const struct fm_analysis *const sides[2] = { base, a };
	struct builder b = { .c = c };
	*c = (struct fm_overlay){ 0 };
	fm_vec_push(&c->nodes, (struct fm_node){ 0 });
	for (int side = 0; side < 2; side++)
		b.function[side] =
			fm_alloc((fm_symbolizer_n_functions(sides[side]->symbolizer) + 1) * sizeof(uint32_t));
	// The new capture first, so that what both have is numbered in its order.
	for (int side = 1; side >= 0; side--) {
		add_tree(&b, sides[side], side, max_nodes);
		add_rows(&b, sides[side], side);
	}
	if (c->rows.n)
		qsort(c->rows.items, c->rows.n, sizeof(*c->rows.items), compare_rows);
	if (c->lines.n)
		qsort(c->lines.items, c->lines.n, sizeof(*c->lines.items), compare_rows);
	free(b.function[0]);
	free(b.function[1]);
	fm_intern_deinit(&b.keys);
	fm_map_deinit(&b.children);
	fm_map_deinit(&b.cell_index);
	fm_map_deinit(&b.row_index);
	fm_map_deinit(&b.line_index);
}
