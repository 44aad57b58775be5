// SPDX-License-Identifier: Apache-2.0
// What samples may spend.
#include "sigsafe/base/budget.h"

#include "test.h"

static struct fm_wire_header header = { .cycles_per_1024ns = 2048, .max_overhead_1024 = 102 }; // 2 GHz, a tenth
static struct fm_sig_thread t;

static void begin(void)
{
	static struct fm_wire_counts counts;
	fm_sig.header = &header;
	fm_sig.counts = &counts;
	fm_sig_budget_start();
	CHECK_EQ(fm_sig.sample_cycles, 2 * FM_SIG_SAMPLE_NS);
	t.budget_cpu_ns = 0;
	t.saved_ns = 0;
}

TEST(a_thread_spends_no_more_than_its_share)
{
	begin();
	uint64_t cpu_ns = 1, n_taken = 0;
	for (unsigned i = 0; i < 10000; i++, cpu_ns += 1000000) { // a tick each millisecond, samples of 0.2 ms
		if (!fm_sig_budget_allows(&t, cpu_ns))
			continue;
		t.start_cycles = fm_cycles() - fm_sig_cycles_in(200000);
		fm_sig_budget_end(&t);
		n_taken++;
	}
	// 102 / 1024 of 10 s, and what was there to begin with. Ending itself takes some cycles.
	double expected = (10e9 * 102 / 1024 + FM_SIG_SAVED_NS) / 200000;
	CHECK(n_taken <= expected + 1 && n_taken > 0.9 * expected);
}

TEST(what_is_cheap_is_always_taken)
{
	begin();
	for (uint64_t cpu_ns = 1; cpu_ns < 1000000000; cpu_ns += 1000000) {
		CHECK(fm_sig_budget_allows(&t, cpu_ns));
		t.start_cycles = fm_cycles();
		fm_sig_budget_end(&t);
	}
}

TEST(no_more_is_saved_than_can_be_spent_at_once)
{
	begin();
	CHECK(fm_sig_budget_allows(&t, 1));
	CHECK(fm_sig_budget_allows(&t, 1000000000000)); // a quarter of an hour without a sample
	CHECK_EQ(t.saved_ns, FM_SIG_SAVED_NS);
}

TEST(without_a_limit_everything_is_taken)
{
	begin();
	header.max_overhead_1024 = 0;
	for (unsigned i = 0; i < 1000; i++) {
		CHECK(fm_sig_budget_allows(&t, 1));
		t.start_cycles = fm_cycles() - 1000000;
		fm_sig_budget_end(&t);
	}
}

TEST(allocations_get_rarer_when_they_take_too_much)
{
	begin();
	CHECK(fm_sig_budget_allows(&t, 1));
	for (unsigned i = 0; i < 100; i++) {
		t.start_cycles = fm_cycles() - fm_sig_cycles_in(200000);
		fm_sig_budget_end_alloc(&t);
	}
	CHECK_EQ(t.alloc_pressure, FM_SIG_MAX_PRESSURE);
	CHECK(fm_sig_budget_allows(&t, 2)); // time has a purse of its own
	fm_sig_budget_allows(&t, 1000000000);
	for (unsigned i = 0; i < FM_SIG_MAX_PRESSURE; i++) {
		t.start_cycles = fm_cycles();
		fm_sig_budget_end_alloc(&t);
	}
	CHECK_EQ(t.alloc_pressure, 0);
}

// A program that allocates all the time: samples of 4 us, two hundred to a tick when nothing is
// halved. A tenth allows 25.
TEST(allocations_settle_where_they_take_their_share)
{
	begin();
	t.alloc_saved_ns = t.alloc_pressure = 0;
	header.max_overhead_1024 = 102;
	uint64_t cpu_ns = 1, n_taken = 0;
	unsigned least = FM_SIG_MAX_PRESSURE, most = 0;
	for (unsigned tick = 0; tick < 2000; tick++, cpu_ns += 1000000) {
		fm_sig_budget_allows(&t, cpu_ns);
		for (double left = 200; left > 0; left -= 1 << t.alloc_pressure) {
			t.start_cycles = fm_cycles() - fm_sig_cycles_in(4000);
			fm_sig_budget_end_alloc(&t);
			if (tick < 1000)
				continue;
			n_taken++;
			least = FM_MIN(least, (unsigned)t.alloc_pressure);
			most = FM_MAX(most, (unsigned)t.alloc_pressure);
		}
	}
	CHECK(n_taken > 15000 && n_taken < 30000);
	CHECK(most <= least + 2);
}

TEST_MAIN()
