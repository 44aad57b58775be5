// SPDX-License-Identifier: Apache-2.0
#include "aggregate/tree/children.h"

#include <stdlib.h>

#define LEAST_SLOTS 64u

void fm_children_init(struct fm_children *c, size_t n_expected)
{
	size_t cap = LEAST_SLOTS;
	while (cap < n_expected / 2)
		cap *= 2; // children beyond the first are fewer than half of the nodes, mostly
	*c = (struct fm_children){ .slots = fm_alloc(cap * sizeof(*c->slots)), .cap = cap };
	fm_vec_reserve(&c->nodes, n_expected);
	fm_vec_push(&c->nodes, (struct fm_growing_node){ 0 });
}

void fm_children_deinit(struct fm_children *c)
{
	fm_vec_deinit(&c->nodes);
	free(c->slots);
	*c = (struct fm_children){ 0 };
}

static bool is_it(const struct fm_growing_node *node, uint32_t parent, uint32_t function_id, uint32_t line,
		  bool is_inlined)
{
	return node->parent == parent && node->function_id == function_id && node->line == line &&
	       node->is_inlined == is_inlined;
}

static uint64_t hash_of_node(const struct fm_growing_node *node)
{
	return fm_children_hash(node->parent, fm_children_place(node->function_id, node->line, node->is_inlined));
}

static void grow(struct fm_children *c)
{
	struct fm_child_slot *old = c->slots;
	size_t n_old = c->cap;
	c->cap *= 2;
	c->slots = fm_alloc(c->cap * sizeof(*c->slots));
	for (size_t i = 0; i < n_old; i++) {
		if (!old[i].node)
			continue;
		const struct fm_growing_node *node = &c->nodes.items[old[i].node];
		size_t at = hash_of_node(node) & (c->cap - 1);
		while (c->slots[at].node)
			at = (at + 1) & (c->cap - 1);
		c->slots[at] = old[i];
	}
	free(old);
}

static uint32_t add(struct fm_children *c, uint32_t parent, uint32_t function_id, uint32_t line, bool is_inlined)
{
	struct fm_growing_node node = { .parent = parent,
					.function_id = function_id,
					.line = line,
					.depth = (c->nodes.items[parent].depth + 1) & INT32_MAX,
					.is_inlined = is_inlined };
	fm_vec_push(&c->nodes, node);
	return (uint32_t)c->nodes.n - 1;
}

uint32_t fm_children_get(struct fm_children *c, uint32_t parent, uint32_t function_id, uint32_t line, bool is_inlined)
{
	uint32_t first = c->nodes.items[parent].first_child;
	if (!first) {
		first = add(c, parent, function_id, line, is_inlined);
		c->nodes.items[parent].first_child = first;
		return first;
	}
	if (is_it(&c->nodes.items[first], parent, function_id, line, is_inlined))
		return first;
	if (FM_UNLIKELY(c->n * 4 >= c->cap * 3))
		grow(c);
	uint64_t hash = fm_children_hash(parent, fm_children_place(function_id, line, is_inlined));
	uint32_t tag = (uint32_t)(hash >> 32);
	for (size_t at = hash & (c->cap - 1);; at = (at + 1) & (c->cap - 1)) {
		struct fm_child_slot *slot = &c->slots[at];
		if (!slot->node) {
			*slot = (struct fm_child_slot){ add(c, parent, function_id, line, is_inlined), tag };
			c->n++;
			return slot->node;
		}
		if (slot->tag == tag && is_it(&c->nodes.items[slot->node], parent, function_id, line, is_inlined))
			return slot->node;
	}
}

uint32_t *fm_children_places(const struct fm_children *c)
{
	const struct fm_growing_node *nodes = c->nodes.items;
	uint32_t n = (uint32_t)c->nodes.n;
	uint32_t *place = fm_alloc(n * sizeof(*place)), *next = fm_alloc(n * sizeof(*next));
	for (uint32_t i = n; i-- > 1;)
		next[nodes[i].parent] += next[i] + 1; // how many are below it
	next[0] = 1;
	for (uint32_t i = 1; i < n; i++) {
		place[i] = next[nodes[i].parent];
		next[nodes[i].parent] += next[i] + 1;
		next[i] = place[i] + 1; // from here on: where its next child goes
	}
	free(next);
	return place;
}
