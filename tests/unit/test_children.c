// SPDX-License-Identifier: Apache-2.0
#include "test.h"

#include "aggregate/tree/children.h"

static uint32_t dice(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

// The plain way: every node is looked at.
static uint32_t find(const struct fm_children *c, uint32_t parent, uint32_t function_id, uint32_t line, bool is_inlined)
{
	for (uint32_t i = 1; i < c->nodes.n; i++) {
		const struct fm_growing_node *node = &c->nodes.items[i];
		if (node->parent == parent && node->function_id == function_id && node->line == line &&
		    node->is_inlined == is_inlined)
			return i;
	}
	return 0;
}

// From a table that has to grow often; below few parents, so that most children are asked for
// again.
TEST(a_child_is_found_again_and_made_once)
{
	struct fm_children c;
	fm_children_init(&c, 0);
	uint32_t state = 1, n_again = 0;
	for (unsigned i = 0; i < 6000; i++) {
		uint32_t parent = dice(&state) % FM_MIN(c.nodes.n, (size_t)40), function = dice(&state) % 9,
			 line = dice(&state) % 5;
		bool is_inlined = dice(&state) % 2;
		uint32_t known = find(&c, parent, function, line, is_inlined), n = (uint32_t)c.nodes.n;
		uint32_t child = fm_children_get(&c, parent, function, line, is_inlined);
		CHECK_EQ(child, known ? known : n);
		CHECK_EQ(c.nodes.n, known ? n : n + 1);
		CHECK_EQ(c.nodes.items[child].depth, c.nodes.items[parent].depth + 1);
		n_again += known > 0;
	}
	CHECK(n_again > 1000 && c.n > 1000);
	fm_children_deinit(&c);
}

TEST(each_place_is_followed_by_all_that_is_below)
{
	for (uint32_t seed = 1; seed < 20; seed++) {
		struct fm_children c;
		fm_children_init(&c, 16);
		uint32_t state = seed;
		for (unsigned i = 0; i < 300; i++)
			fm_children_get(&c, dice(&state) % (uint32_t)c.nodes.n, i, 0, false);
		uint32_t n = (uint32_t)c.nodes.n, *place = fm_children_places(&c), *at = fm_alloc(n * sizeof(*at));
		CHECK_EQ(place[0], 0);
		for (uint32_t i = 1; i < n; i++) {
			CHECK(place[i] < n && !at[place[i]]); // each place once
			at[place[i]] = i;
		}
		for (uint32_t p = 1; p < n; p++) {
			const struct fm_growing_node *node = &c.nodes.items[at[p]], *before = &c.nodes.items[at[p - 1]];
			// It hangs on the one before it, or on one that this one hangs on.
			CHECK(node->depth <= before->depth + 1);
			uint32_t up = at[p - 1];
			while (c.nodes.items[up].depth >= node->depth)
				up = c.nodes.items[up].parent;
			CHECK_EQ(up, node->parent);
		}
		for (uint32_t i = 1; i < n; i++) // siblings as they came
			for (uint32_t k = i + 1; k < n; k++)
				CHECK(c.nodes.items[i].parent != c.nodes.items[k].parent || place[i] < place[k]);
		free(place);
		free(at);
		fm_children_deinit(&c);
	}
}

TEST_MAIN()
