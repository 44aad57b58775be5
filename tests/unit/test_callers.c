// SPDX-License-Identifier: Apache-2.0
#include "test.h"

#include "aggregate/tally/workers.h"
#include "aggregate/tally/tally.h"

#define MS 1000000ull

static void see(struct fm_callers *c, uint64_t ms, uint64_t weight_ms, uint8_t class, uint32_t stack, uint64_t images)
{
	struct fm_sample s = { .thread_id = 1, .time_ns = ms * MS, .weight_ns = weight_ms * MS, .class = class };
	fm_callers_add(c, &s, stack, images);
}

static uint32_t stack_at(const struct fm_callers *c, uint64_t ms)
{
	const struct fm_call *call = fm_callers_at(c, 1, ms * MS);
	return call ? call->python_stack : 0;
}

// Busy in one call, in another right after it, then outside; then asleep in a third.
TEST(the_call_at_a_time_is_the_nearer_one)
{
	struct fm_callers c = { 0 };
	see(&c, 1000, 1, FM_CLASS_PYTHON, 7, 0);
	see(&c, 1010, 1, FM_CLASS_NATIVE, 5, 1);
	see(&c, 1020, 1, FM_CLASS_NATIVE, 5, 2);
	see(&c, 1030, 1, FM_CLASS_NATIVE, 6, 1);
	see(&c, 1040, 1, FM_CLASS_PYTHON, 7, 0);
	see(&c, 2000, 900, FM_CLASS_WAIT, 8, 4);
	see(&c, 2010, 1, FM_CLASS_PYTHON, 7, 0);
	CHECK_EQ(stack_at(&c, 999), 0u);
	CHECK_EQ(stack_at(&c, 1015), 5u);
	CHECK_EQ(stack_at(&c, 1023), 5u);
	CHECK_EQ(stack_at(&c, 1027), 6u);
	CHECK_EQ(stack_at(&c, 1500), 8u);
	CHECK_EQ(stack_at(&c, 2020), 0u);
	CHECK_EQ(fm_callers_at(&c, 1, 1015 * MS)->images, 3u);
	CHECK(!fm_callers_at(&c, 2, 1015 * MS));
	fm_callers_deinit(&c);
}

TEST(a_thread_without_samples_for_long_is_nowhere)
{
	struct fm_callers c = { 0 };
	see(&c, 1000, 1, FM_CLASS_NATIVE, 5, 1);
	CHECK_EQ(stack_at(&c, 1090), 5u);
	CHECK_EQ(stack_at(&c, 1200), 0u);
	fm_callers_deinit(&c);
}

TEST(what_is_moved_leaves_no_trace)
{
	struct fm_tally t = { 0 };
	struct fm_sample s = { .thread_id = 1, .stack_id = 3, .time_ns = 10, .weight_ns = 5, .class = FM_CLASS_NATIVE };
	fm_tally_add(&t, &s, 1);
	s.time_ns = 20;
	fm_tally_add(&t, &s, 1);
	fm_tally_move(&t, &s, 9);
	fm_tally_drop_empty(&t);
	CHECK_EQ(t.cells.n, 2u);
	CHECK_EQ(t.cells.items[0].n + t.cells.items[1].n, 2u);
	s.time_ns = 10;
	fm_tally_move(&t, &s, 9);
	fm_tally_drop_empty(&t);
	CHECK_EQ(t.cells.n, 1u);
	CHECK_EQ(t.cells.items[0].stack_id, 9u);
	CHECK_EQ(t.cells.items[0].weight_ns, 10u);
	CHECK_EQ(t.n_samples, 2u);
	CHECK_EQ(t.threads.items[1].cpu_ns, 10u);
	fm_tally_deinit(&t);
}

TEST_MAIN()
