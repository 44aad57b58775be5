// SPDX-License-Identifier: Apache-2.0
// Small stacks are told with their callers, up to a frame that always stays; nothing is lost on the
// way.
#include "collect/ingest/sites.h"

#include "test.h"

#define OWN (1u << 20) // frames from here on always stay

static bool is_own(const void *arg, uint64_t frame)
{
	(void)arg;
	return frame >= OWN;
}

static uint32_t stack(struct fm_site_stacks *s, uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t frames[] = { a, b, c };
	return fm_site_stacks_add(s, frames, c ? 3 : b ? 2 : a ? 1 : 0, 5);
}

TEST(the_same_stack_is_the_same_node)
{
	struct fm_site_stacks s = { 0 };
	CHECK_EQ(stack(&s, 0, 0, 0), 0);
	uint32_t abc = stack(&s, 1, 2, 3), ab = stack(&s, 1, 2, 0);
	CHECK_EQ(stack(&s, 1, 2, 3), abc);
	CHECK_EQ(s.nodes.items[abc].parent, ab);
	CHECK(stack(&s, 2, 2, 3) != abc);
	for (uint64_t i = 1; i < 50000; i++)
		CHECK_EQ(stack(&s, i, i * 7, i * 13), stack(&s, i, i * 7, i * 13));
	fm_site_stacks_deinit(&s);
}

TEST(what_is_small_goes_to_its_caller)
{
	struct fm_site_stacks s = { 0 };
	uint32_t large = stack(&s, 1, 2, 3), small = stack(&s, 1, 2, 4), own = stack(&s, 1, OWN, 5),
		 other = stack(&s, 6, 7, 8);
	uint32_t often = stack(&s, 1, 2, 9), high = stack(&s, 1, 2, 10);
	fm_site_stacks_count(&s, large, 1000000, 4000, 5000);
	fm_site_stacks_count(&s, small, 10, 1, 1);
	fm_site_stacks_count(&s, own, 10, 1, 1);
	fm_site_stacks_count(&s, other, 10, 1, 1);
	fm_site_stacks_count(&s, often, 10, 100, 1);
	fm_site_stacks_count(&s, high, 10, 1, 100);
	CHECK_EQ(fm_site_stacks_cut(&s, large, is_own, NULL), large);
	CHECK_EQ(fm_site_stacks_cut(&s, small, is_own, NULL), stack(&s, 1, 2, 0));
	CHECK_EQ(fm_site_stacks_cut(&s, own, is_own, NULL), stack(&s, 1, OWN, 0));
	CHECK_EQ(fm_site_stacks_cut(&s, other, is_own, NULL), 0);
	CHECK_EQ(fm_site_stacks_cut(&s, often, is_own, NULL), often);
	CHECK_EQ(fm_site_stacks_cut(&s, high, is_own, NULL), high);
	CHECK_EQ(s.nodes.items[0].bytes, 1000050);
	fm_site_stacks_deinit(&s);
}

TEST(many_small_ones_keep_their_common_caller)
{
	struct fm_site_stacks s = { 0 };
	for (uint64_t i = 1; i <= 10000; i++)
		fm_site_stacks_count(&s, stack(&s, 1, 2 + i % 10, 100 + i), 100, 1, 100);
	for (uint64_t i = 1; i <= 10000; i++)
		CHECK_EQ(fm_site_stacks_cut(&s, stack(&s, 1, 2 + i % 10, 100 + i), is_own, NULL),
			 stack(&s, 1, 2 + i % 10, 0));
	fm_site_stacks_deinit(&s);
}

TEST_MAIN()
