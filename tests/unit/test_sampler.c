// SPDX-License-Identifier: Apache-2.0
// The sampler against the theory it is built on. Seeds are fixed: these tests give the same answer
// each time they run.
#include "sigsafe/base/sampler.h"

#include <math.h>

#include "test.h"

#define MEAN (128u << 10)
#define CERTAIN (256u << 10)

struct sum {
	double weight, variance; // variance: what the estimate should have, sum of size^2 (1 - p) / p
	double bytes;
	uint64_t n_taken;
};

// What a hook does with each block it sees.
static void add(struct fm_sig_sampler *s, uint64_t size, unsigned pressure, uint64_t now_ns, struct sum *sum)
{
	double p = size >= s->certain ? 1 : -expm1(-(double)size / (double)s->mean);
	sum->bytes += (double)size;
	sum->variance += (double)size * (double)size * (1 - p) / p;
	if (size <= s->left) {
		s->left -= size;
		return;
	}
	uint64_t weight = fm_sig_sampler_take(s, size);
	if (!weight)
		return;
	sum->weight += (double)weight;
	sum->n_taken++;
	fm_sig_sampler_next(s, now_ns, pressure);
}

TEST(weight_is_size_by_probability)
{
	for (unsigned m = 10; m <= 40; m += 3)
		for (uint64_t size = 1; size < 1ull << 46; size = size * 7 / 4 + 1) {
			double mean = (double)(1ull << m), expected = (double)size / -expm1(-(double)size / mean);
			double error = fabs((double)fm_sig_sampler_weight(size, 1ull << m) - expected);
			CHECK(error <= 0.75 + 1e-6 * expected);
		}
	CHECK_EQ(fm_sig_sampler_weight(0, MEAN), 0);
}

// One size at a time, 400 seeds: each estimate within its own deviation about 99.7 times in 100,
// their mean within a twentieth of one (the deviation of a mean of 400).
TEST(estimates_are_unbiased_for_every_size)
{
	const uint64_t sizes[] = { 16, 56, 512, 4096, 30000, MEAN, CERTAIN - 1, CERTAIN, 1u << 20 };
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		double sum_of_errors = 0, sigma = 0;
		unsigned n_far = 0;
		for (uint64_t seed = 0; seed < 400; seed++) {
			struct fm_sig_sampler s;
			struct sum sum = { 0 };
			fm_sig_sampler_start(&s, MEAN, CERTAIN, 0, seed);
			for (uint64_t n = 0; n < (4u << 20) / sizes[i]; n++)
				add(&s, sizes[i], 0, 0, &sum);
			sigma = sqrt(sum.variance);
			double error = sum.weight - sum.bytes;
			sum_of_errors += error;
			n_far += fabs(error) > 3 * sigma + 1;
		}
		CHECK(n_far <= 8);
		CHECK(fabs(sum_of_errors / 400) <= 3.5 * sigma / 20 + 1);
	}
}

TEST(mixed_sizes_and_changing_means_stay_unbiased)
{
	double sum_of_errors = 0, sum_of_variances = 0;
	for (uint64_t seed = 0; seed < 400; seed++) {
		struct fm_sig_sampler s;
		struct sum sum = { 0 };
		uint64_t x = seed * 77 + 1;
		fm_sig_sampler_start(&s, MEAN / 8, CERTAIN / 8, 0, seed);
		for (unsigned n = 0; n < 20000; n++) {
			x = x * 6364136223846793005u + 1442695040888963407u;
			// Sizes over five decades; pressure goes up and down with the past, as a
			// filling table has it.
			uint64_t size = 16 + (x >> 33) % (1u << (4 + (x >> 60)));
			add(&s, size, (unsigned)(sum.n_taken / 50 % 3), n * 1000, &sum);
		}
		CHECK_EQ(sum.n_taken > 100, 1);
		sum_of_errors += sum.weight - sum.bytes;
		sum_of_variances += sum.variance;
	}
	CHECK(fabs(sum_of_errors) <= 3.5 * sqrt(sum_of_variances));
}

TEST(sizes_from_certain_on_are_always_taken)
{
	for (uint64_t seed = 0; seed < 50; seed++) {
		struct fm_sig_sampler s;
		fm_sig_sampler_start(&s, MEAN, CERTAIN, 0, seed);
		for (unsigned n = 0; n < 1000; n++) {
			CHECK(s.left < s.certain);
			if (n % 3 == 0) {
				CHECK(fm_sig_sampler_take(&s, CERTAIN + n) == CERTAIN + n);
				continue;
			}
			struct sum sum = { 0 };
			add(&s, 1000, 0, n, &sum);
		}
	}
}

// 20,000 a second come in; the thread's own rate settles around the limit, and the sum of weights
// still tells the bytes.
TEST(a_busy_thread_draws_less_often_and_a_quiet_one_again)
{
	struct fm_sig_sampler s;
	struct sum sum = { 0 };
	uint64_t now_ns = 1000000000, n_before = 0, x = 1;
	fm_sig_sampler_start(&s, FM_SIG_USUAL_MEAN_BYTES, 2 * FM_SIG_USUAL_MEAN_BYTES, 0, 9);
	for (unsigned n = 0; n < 200000; n++, now_ns += 50000) { // 10 s
		x = x * 6364136223846793005u + 1442695040888963407u;
		if (n == 100000)
			n_before = sum.n_taken;
		add(&s, (2048 + (x >> 50)) * 128, 0, now_ns, &sum);
	}
	CHECK(sum.n_taken - n_before <= 5 * FM_SIG_SAMPLES_PER_SECOND + 500);
	CHECK(sum.n_taken - n_before >= 5 * FM_SIG_SAMPLES_PER_SECOND / 16);
	CHECK(fabs(sum.weight - sum.bytes) <= 4 * sqrt(sum.variance));
	CHECK(s.shift + s.certain_shift >= 1);
	for (unsigned n = 0; n < 200; n++, now_ns += 300000000)
		add(&s, 1ull << 40, 0, now_ns, &sum); // some a second
	CHECK_EQ(s.shift + s.certain_shift, 0);
	CHECK_EQ(s.mean, FM_SIG_USUAL_MEAN_BYTES);
}

// Of a program that allocates a gigabyte a second: each step doubles the samples until there are as
// many as there may be.
TEST(a_finer_mean_buys_more_samples)
{
	uint64_t n_taken[7];
	for (unsigned precision = 0; precision < 7; precision++) {
		struct fm_sig_sampler s;
		struct sum sum = { 0 };
		uint64_t now_ns = 1000000000, n_before = 0;
		fm_sig_sampler_start(&s, FM_SIG_USUAL_MEAN_BYTES >> precision, 2 * FM_SIG_USUAL_MEAN_BYTES, 3, 7);
		for (unsigned n = 0; n < 4000000; n++, now_ns += 1000) { // 4 s
			if (n == 1000000)
				n_before = sum.n_taken;
			add(&s, 1000, 0, now_ns, &sum);
		}
		n_taken[precision] = sum.n_taken - n_before;
		CHECK(n_taken[precision] <= 3.2 * FM_SIG_MOST_PER_SECOND);
		CHECK(fabs(sum.weight - sum.bytes) <= 4 * sqrt(sum.variance));
	}
	for (unsigned precision = 1; precision <= 4; precision++)
		CHECK(n_taken[precision] > 1.4 * (double)n_taken[precision - 1]);
	CHECK(n_taken[4] > 8 * n_taken[0] && n_taken[6] <= 2.2 * (double)n_taken[4]);
}

// Slow growth alone is drawn at an eighth of the mean; with others beside it, as many as are free;
// in a crowd at the mean and above. Whatever happens, the sums stay unbiased.
TEST(a_quiet_thread_draws_more_often_than_asked_for)
{
	const double rates[] = { 16667, 1e6, 1e7, 1e9 }; // bytes a second, for 60 s
	for (unsigned i = 0; i < 4; i++) {
		double sum_of_errors = 0, sum_of_variances = 0;
		for (uint64_t seed = 0; seed < 40; seed++) {
			struct fm_sig_sampler s;
			struct sum sum = { 0 };
			uint64_t now_ns = 1000000000, size = i < 2 ? 200 : i < 3 ? 2000 : 200000;
			double span_s = i < 3 ? 60 : 2;
			fm_sig_sampler_start(&s, MEAN, CERTAIN, 3, seed);
			for (double at = 0; at < span_s; at += (double)size / rates[i])
				add(&s, size, 0, now_ns + (uint64_t)(at * 1e9), &sum);
			double asked_for = sum.bytes / MEAN, n = (double)sum.n_taken;
			if (i < 2) // 1 MB and 60 MB a minute: 8 times what was asked for
				CHECK(fabs(n - 8 * asked_for) <= 4 * sqrt(8 * asked_for) + 1);
			else if (i == 2) // 76 a second are asked for
				CHECK(n > asked_for && n / span_s <= 1.2 * FM_SIG_FREE_PER_SECOND);
			else
				CHECK(n / span_s <= 1.5 * FM_SIG_SAMPLES_PER_SECOND && s.shift >= 3);
			sum_of_errors += sum.weight - sum.bytes;
			sum_of_variances += sum.variance;
		}
		CHECK(fabs(sum_of_errors) <= 3.5 * sqrt(sum_of_variances));
	}
}

// A burst does not make a thread coarse for ever.
TEST(a_thread_that_was_busy_is_fine_again)
{
	struct fm_sig_sampler s;
	struct sum sum = { 0 };
	uint64_t now_ns = 1000000000;
	fm_sig_sampler_start(&s, MEAN, CERTAIN, 3, 7);
	for (unsigned n = 0; n < 2000000; n++, now_ns += 200) // 0.4 s at 5 GB/s
		add(&s, 1000, 0, now_ns, &sum);
	CHECK(s.shift > 3);
	for (unsigned n = 0; n < 60 * 1000; n++, now_ns += 1000000) // a minute at 1 MB/s
		add(&s, 1000, 0, now_ns, &sum);
	CHECK_EQ(s.shift, 0);
	CHECK(fabs(sum.weight - sum.bytes) <= 4 * sqrt(sum.variance));
}

TEST_MAIN()
