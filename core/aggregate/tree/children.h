// SPDX-License-Identifier: Apache-2.0
// Which children a node of a growing tree has, by their place: found without a list, for trees of
// millions of nodes.
//
// Most nodes have one child or none, which the node itself names. The others are in one table for
// all nodes, whose slots hold a part of the hash: what is not there is known as such from the slot
// alone, and the nodes are rarely asked.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/mem.h"

struct fm_growing_node {
	uint32_t parent, function_id, line;
	uint32_t depth : 31;
	uint32_t is_inlined : 1;
	uint32_t first_child; // 0 = none yet
};

struct fm_child_slot {
	uint32_t node, tag; // node 0 = free
};

struct fm_children {
	FM_VEC(struct fm_growing_node) nodes; // [0] is the root
	struct fm_child_slot *slots;
	size_t n, cap; // cap is a power of two
};

void fm_children_init(struct fm_children *c, size_t n_expected);
void fm_children_deinit(struct fm_children *c);
// The node of that function, line and kind of call below the parent, made when there is none.
uint32_t fm_children_get(struct fm_children *c, uint32_t parent, uint32_t function_id, uint32_t line, bool is_inlined);
// By node: its place when each is followed by all that is below it, siblings as they came. To be
// freed.
uint32_t *fm_children_places(const struct fm_children *c);

// A place below any parent, as one number.
static inline uint64_t fm_children_place(uint32_t function_id, uint32_t line, bool is_inlined)
{
	return (uint64_t)function_id << 32 | (line << 1 | is_inlined);
}
static inline uint64_t fm_children_hash(uint32_t parent, uint64_t place)
{
	return fm_hash_u64(place * 0x9e3779b97f4a7c15u + parent);
}

// For who knows which parents and places come next: what is looked at first, and then what that
// names, is fetched meanwhile.
static inline void fm_children_fetch(const struct fm_children *c, uint32_t parent)
{
	__builtin_prefetch(&c->nodes.items[parent]);
}
static inline void fm_children_fetch_child(const struct fm_children *c, uint32_t parent, uint64_t place)
{
	uint32_t first = c->nodes.items[parent].first_child;
	if (!first)
		return;
	__builtin_prefetch(&c->nodes.items[first]);
	__builtin_prefetch(&c->slots[fm_children_hash(parent, place) & (c->cap - 1)], 1);
}
