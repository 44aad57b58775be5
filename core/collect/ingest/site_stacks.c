// SPDX-License-Identifier: Apache-2.0
#include "collect/ingest/sites.h"

#include <stdlib.h>

// What is less than this part of a process's memory is told with its caller.
#define WORTH_PARTS 1000

void fm_site_stacks_deinit(struct fm_site_stacks *s)
{
	fm_vec_deinit(&s->nodes);
	fm_map_deinit(&s->ids);
}

static uint32_t add(struct fm_site_stacks *s, uint32_t parent, uint64_t frame, uint64_t time_ns)
{
	for (uint64_t hash = fm_hash_u64(frame ^ parent * 0x9e3779b97f4a7c15u);; hash++) {
		bool is_new;
		uint64_t *id = fm_map_at(&s->ids, hash, &is_new);
		if (is_new) {
			*id = s->nodes.n;
			fm_vec_push(&s->nodes,
				    ((struct fm_site_node){ .frame = frame, .parent = parent, .time_ns = time_ns }));
			return (uint32_t)(s->nodes.n - 1);
		}
		const struct fm_site_node *node = &s->nodes.items[*id];
		if (node->frame == frame && node->parent == parent)
			return (uint32_t)*id;
	}
}

uint32_t fm_site_stacks_add(struct fm_site_stacks *s, const uint64_t *frames, size_t n, uint64_t time_ns)
{
	uint32_t node = 0;
	if (!s->nodes.n)
		fm_vec_push(&s->nodes, ((struct fm_site_node){ .stack_id1 = 1 }));
	for (size_t i = 0; i < n; i++)
		node = add(s, node, frames[i], time_ns);
	return node;
}

void fm_site_stacks_count(struct fm_site_stacks *s, uint32_t node, uint64_t bytes, uint64_t n_allocs,
			  uint64_t peak_bytes)
{
	for (;; node = s->nodes.items[node].parent) {
		struct fm_site_node *to = &s->nodes.items[node];
		to->bytes += bytes;
		to->n_allocs += n_allocs;
		to->at_most += peak_bytes;
		if (!node)
			return;
	}
}

uint32_t fm_site_stacks_cut(const struct fm_site_stacks *s, uint32_t node,
			    bool (*is_always)(const void *arg, uint64_t frame), const void *arg)
{
	const struct fm_site_node *all = &s->nodes.items[0], *at = &s->nodes.items[node];
	while (node && at->bytes < all->bytes / WORTH_PARTS && at->n_allocs < all->n_allocs / WORTH_PARTS &&
	       at->at_most < all->at_most / WORTH_PARTS && !is_always(arg, at->frame)) {
		node = at->parent;
		at = &s->nodes.items[node];
	}
	return node;
}
