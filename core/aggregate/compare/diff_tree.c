// SPDX-License-Identifier: Apache-2.0
#include "aggregate/compare/diff.h"

#include <stdlib.h>
#include <string.h>

#include "aggregate/tree/prune.h"

struct builder {
	struct fm_diff_tree *c;
	struct fm_intern keys;  // what makes two functions the same; its ids are those of c->functions
	struct fm_map children; // (parent, function) -> node
	struct fm_map cell_index, heap_index;
	uint32_t *function[2]; // by function id of the side: function here + 1
};

void fm_diff_tree_deinit(struct fm_diff_tree *c)
{
	fm_vec_deinit(&c->functions);
	fm_vec_deinit(&c->nodes);
	fm_vec_deinit(&c->cells);
	fm_vec_deinit(&c->heap);
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
		fm_vec_push(&b->c->functions, (struct fm_diff_tree_function){ { FM_NO_ID, FM_NO_ID } });
	if (b->c->functions.items[id].id[side] == FM_NO_ID)
		b->c->functions.items[id].id[side] = function_id;
	*known = id + 1;
	return id;
}

static void add_heap(struct builder *b, const struct fm_analysis *a, int side, const struct fm_pruned *tree,
		     const uint32_t *here)
{
	for (size_t i = 0; i < a->heap.stacks.n; i++) {
		const struct fm_heap_stack_row *row = &a->heap.stacks.items[i];
		uint32_t node = here[tree->kept[fm_view_node(&a->view, row->stack_id)]];
		uint64_t bytes[FM_N_HEAP_KINDS];
		bool is_new;
		uint64_t *at = fm_map_at(&b->heap_index, node, &is_new);
		if (is_new) {
			*at = b->c->heap.n;
			fm_vec_push(&b->c->heap, (struct fm_diff_tree_heap){ .node = node });
		}
		fm_heap_stack_bytes(row, bytes);
		for (int k = 0; k < FM_N_HEAP_KINDS; k++)
			b->c->heap.items[*at].bytes[side][k] += bytes[k];
	}
}

static void add_tree(struct builder *b, const struct fm_analysis *a, int side, size_t max_nodes)
{
	double *shares = fm_prune_shares(&a->tally, &a->view);
	fm_analysis_add_heap_shares(a, &a->heap.stacks, NULL, shares);
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
			fm_vec_push(&b->c->cells, (struct fm_diff_tree_cell){ .node = node, .class = cell->class });
		}
		struct fm_diff_tree_cell *to = &b->c->cells.items[*at];
		struct fm_weight weight = fm_cell_weight(cell);
		to->ns[side] += cell->weight_ns;
		to->n[side] += weight.n;
		to->sq[side] += weight.cpu_sq;
	}
	add_heap(b, a, side, &tree, here);
	free(here);
	fm_pruned_deinit(&tree);
}

void fm_diff_tree_build(struct fm_diff_tree *c, const struct fm_analysis *base, const struct fm_analysis *a,
			size_t max_nodes)
{
	const struct fm_analysis *const sides[2] = { base, a };
	struct builder b = { .c = c };
	*c = (struct fm_diff_tree){ 0 };
	fm_vec_push(&c->nodes, (struct fm_node){ 0 });
	for (int side = 0; side < 2; side++)
		b.function[side] =
			fm_alloc((fm_symbolizer_n_functions(sides[side]->symbolizer) + 1) * sizeof(uint32_t));
	// The new capture first, so that what both have is numbered in its order.
	for (int side = 1; side >= 0; side--)
		add_tree(&b, sides[side], side, max_nodes);
	free(b.function[0]);
	free(b.function[1]);
	fm_intern_deinit(&b.keys);
	fm_map_deinit(&b.children);
	fm_map_deinit(&b.cell_index);
	fm_map_deinit(&b.heap_index);
}
