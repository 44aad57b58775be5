// SPDX-License-Identifier: Apache-2.0
// What samples cost, window by window: the rate is lowered by it.
#include "collect/shared/cost.h"
#include "test.h"

#define CHEAP 4000u
#define DEAR 4000000u

static struct fm_wire_slot slots[2];
static struct fm_cost_seen seen;

static void count(struct fm_wire_slot *slot, uint64_t cycles, uint32_t n)
{
	slot->cost[fm_wire_cost_bucket(cycles)] += n;
}

static struct fm_cost look(void)
{
	struct fm_cost window = { 0 };
	for (uint32_t i = 0; i < 2; i++)
		fm_cost_add_new(&window, &seen, i, &slots[i]);
	return window;
}

static void start(void)
{
	slots[0] = slots[1] = (struct fm_wire_slot){ 0 };
	seen = (struct fm_cost_seen){ 0 };
}

TEST(a_window_has_what_came_since_the_last)
{
	start();
	count(&slots[0], CHEAP, 100);
	struct fm_cost window = look();
	CHECK_EQ(fm_cost_samples(&window), 100);
	count(&slots[0], DEAR, 30);
	window = look();
	CHECK_EQ(fm_cost_samples(&window), 30);
	CHECK(fm_cost_median_cycles(&window) > DEAR / 2);
	window = look();
	CHECK_EQ(fm_cost_samples(&window), 0);
}

TEST(a_thread_that_has_ended_takes_nothing_of_others_along)
{
	start();
	count(&slots[0], CHEAP, 1000);
	count(&slots[1], CHEAP, 1000);
	look();
	slots[1] = (struct fm_wire_slot){ 0 }; // another thread has it now
	count(&slots[0], CHEAP, 300);
	count(&slots[0], DEAR, 30); // preempted
	count(&slots[1], CHEAP, 20);
	struct fm_cost window = look();
	CHECK_EQ(fm_cost_samples(&window), 350);
	CHECK(fm_cost_median_cycles(&window) < 2 * CHEAP);
}

// Four buckets for each doubling: their middles are within an eighth.
TEST(a_bucket_tells_what_was_put_into_it)
{
	for (uint64_t cycles = 256; cycles < 1u << 24; cycles += cycles / 50) {
		double told = (double)fm_wire_cost_cycles(fm_wire_cost_bucket(cycles));
		CHECK(told > (double)cycles * 0.87 && told < (double)cycles * 1.13);
	}
}

TEST_MAIN()
