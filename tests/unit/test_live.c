// SPDX-License-Identifier: Apache-2.0
// The table of sampled blocks: what it holds, what it forgets, and that a full one leaves the
// estimates unbiased.
#include "sigsafe/memory/live.h"

#include <math.h>
#include <sys/mman.h>

#include "sigsafe/base/sampler.h"
#include "test.h"

static void begin(void)
{
	if (fm_sig_live)
		munmap(fm_sig_live, sizeof(*fm_sig_live));
	fm_sig_live = mmap(NULL, sizeof(*fm_sig_live), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	fm_sig_live_forget_all();
}

// Blocks as an allocator hands them out: 16 bytes apart at least, in no order.
static void *block(uint64_t n)
{
	return (void *)(uintptr_t)(0x7f0000000000u + (n * 2654435761u % (1u << 30)) * 16);
}

TEST(what_went_in_comes_out_once)
{
	begin();
	for (uint64_t n = 1; n <= 60000; n++)
		CHECK(fm_sig_live_add(block(n), n));
	CHECK_EQ(fm_sig_live->n, 60000);
	for (uint64_t n = 60000; n >= 1; n--) {
		CHECK(fm_sig_live_may_have(block(n)));
		CHECK_EQ(fm_sig_live_remove(block(n)), n);
		CHECK_EQ(fm_sig_live_remove(block(n)), 0);
	}
	for (uint64_t n = 1; n <= 60000; n++)
		CHECK(!fm_sig_live_may_have(block(n)));
	CHECK_EQ(fm_sig_live->n, 0);
}

TEST(the_filter_is_not_believed)
{
	begin();
	void *p = (void *)0x7f0000000010u, *same_slot = (void *)0x7f0000100010u;
	CHECK(fm_sig_live_add(p, 5));
	CHECK(fm_sig_live_may_have(same_slot));
	CHECK_EQ(fm_sig_live_remove(same_slot), 0);
	CHECK_EQ(fm_sig_live_remove(p), 5);
	fm_sig_live_mark(p);
	fm_sig_live_forget_all();
	CHECK(fm_sig_live_may_have(p));
	CHECK_EQ(fm_sig_live_remove(p), 0);
}

// Ten times as many blocks as the table would hold if each were sampled as at first: it never
// refuses one, and the estimate of what lives is right on average over the seeds and within 3
// deviations nearly always.
TEST(a_filling_table_stays_unbiased)
{
	double sum_of_errors = 0, sum_of_variances = 0;
	unsigned n_far = 0, n_seeds = 40;
	for (uint64_t seed = 0; seed < n_seeds; seed++) {
		struct fm_sig_sampler s;
		double bytes = 0, weight = 0, variance = 0;
		unsigned highest = 0;
		begin();
		fm_sig_sampler_start(&s, 64, 128, 0, seed);
		for (uint64_t n = 1; n <= 1000000; n++) {
			uint64_t size = 16 + n * 2654435761u % 96, w;
			double p = -expm1(-(double)size / (double)s.mean);
			bytes += (double)size;
			variance += (double)size * (double)size * (1 - p) / p;
			if (size <= s.left) {
				s.left -= size;
				continue;
			}
			if (!(w = fm_sig_sampler_take(&s, size)))
				continue;
			CHECK(fm_sig_live_add(block(n), n));
			weight += (double)w;
			unsigned pressure = fm_sig_live_pressure();
			highest = pressure > highest ? pressure : highest;
			fm_sig_sampler_next(&s, n * 1000000, pressure);
		}
		CHECK(highest >= 3);
		CHECK(fm_sig_live->n < FM_SIG_LIVE_ENTRIES / 2);
		sum_of_errors += weight - bytes;
		sum_of_variances += variance;
		n_far += fabs(weight - bytes) > 3 * sqrt(variance);
	}
	CHECK(n_far <= 2);
	CHECK(fabs(sum_of_errors) <= 3.5 * sqrt(sum_of_variances));
}

TEST_MAIN()
