// SPDX-License-Identifier: Apache-2.0
// Runs in pairs: the interval covers what it says it covers, equal programs raise as few alarms as
// are promised, and a small change is found under noise that hides it from who does not pair.
#include "aggregate/compare/paired.h"

#include <math.h>

#include "aggregate/tree/student.h"
#include "draws.h"
#include "test.h"

#define N 10u
#define TRIALS 4000

// What a machine does to the runs.
struct machine {
	double noise;   // of each run, as a share
	double between; // from pair to pair, as jobs on other machines differ
	double drift;   // from the first run to the last
	double late;    // on the second run of a pair: a CPU that gets warm
	double upsets;  // one run in five takes so much longer
	bool in_order;  // the base always first
};

// A comparison of two programs of which the head takes (1 + change) times as long.
static struct fm_paired run_pairs(const struct machine *m, double change, double base[N], double head[N])
{
	for (unsigned i = 0; i < N; i++) {
		double pair = 1 + m->between * (uniform() - 0.5);
		bool is_head_first = !m->in_order && uniform() < 0.5;
		for (unsigned k = 0; k < 2; k++) {
			bool is_head = (k == 0) == is_head_first;
			double t = pair * (1 + m->drift * (2 * i + k) / (2 * N)) * (1 + (k ? m->late : 0));
			t *= exp(m->noise * normal()) * (uniform() < 0.2 ? 1 + m->upsets : 1);
			*(is_head ? &head[i] : &base[i]) = t * (is_head ? 1 + change : 1);
		}
	}
	struct fm_paired p = { 0 };
	CHECK(fm_paired_compare(base, head, N, &p));
	return p;
}

static double share_found(const struct machine *m, double change)
{
	unsigned n = 0;
	double base[N], head[N];
	for (unsigned i = 0; i < TRIALS; i++)
		n += run_pairs(m, change, base, head).is_significant;
	return (double)n / TRIALS;
}

TEST(the_signed_rank_table_is_that_of_the_book)
{
	static const struct {
		unsigned n;
		int critical;
	} table[] = {
		{ 5, -1 }, { 6, 0 }, { 7, 2 }, { 8, 3 }, { 9, 5 }, { 10, 8 }, { 15, 25 }, { 20, 52 }, { 30, 137 }
	};
	for (size_t i = 0; i < FM_ARRAY_LEN(table); i++)
		CHECK_EQ(fm_paired_critical(table[i].n, 0.05), table[i].critical);
	CHECK(fm_paired_critical(FM_PAIRED_MOST, 0.05) > 0);
}

TEST(a_known_sample_has_the_estimate_and_the_interval_that_arithmetic_gives)
{
	// Differences in logarithm of 1 ... 6 hundredths: with six pairs the interval is from the least
	// to the largest, and the middle of all averages 3.5 hundredths.
	double base[6], head[6];
	for (unsigned i = 0; i < 6; i++) {
		base[i] = 2;
		head[i] = 2 * exp(0.01 * (i + 1));
	}
	struct fm_paired p;
	CHECK(fm_paired_compare(base, head, 6, &p));
	CHECK(fabs(p.change - expm1(0.035)) < 1e-12);
	CHECK(fabs(p.low - expm1(0.01)) < 1e-12 && fabs(p.high - expm1(0.06)) < 1e-12);
	CHECK(fabs(p.p - 2.0 / 64) < 1e-12 && p.is_significant);
	CHECK(p.base == 2 && fabs(p.head - (head[2] + head[3]) / 2) < 1e-12);
	CHECK(fm_paired_compare(head, base, 6, &p)); // the other way round
	CHECK(fabs(p.change - expm1(-0.035)) < 1e-12 && p.high < 0 && p.is_significant);
}

TEST(one_wild_run_of_ten_changes_little)
{
	double base[N], head[N];
	struct fm_paired p;
	for (unsigned i = 0; i < N; i++) {
		base[i] = 1 + 0.001 * i;
		head[i] = base[i] * (1.05 + 0.001 * (i % 3));
	}
	head[4] *= 30;
	CHECK(fm_paired_compare(base, head, N, &p));
	CHECK(p.change > 0.05 && p.change < 0.053 && p.low > 0.049);
}

TEST(what_is_the_same_each_time_is_no_change)
{
	double same[FM_PAIRED_LEAST];
	struct fm_paired p;
	for (unsigned i = 0; i < FM_PAIRED_LEAST; i++)
		same[i] = 4096;
	CHECK(fm_paired_compare(same, same, FM_PAIRED_LEAST, &p));
	CHECK(p.change == 0 && p.low == 0 && p.high == 0 && p.p == 1 && !p.is_significant);
}

TEST(what_has_no_share_is_refused)
{
	double ok[FM_PAIRED_MOST + 1], bad[FM_PAIRED_MOST + 1];
	struct fm_paired p;
	for (unsigned i = 0; i <= FM_PAIRED_MOST; i++)
		ok[i] = bad[i] = 1;
	CHECK(!fm_paired_compare(ok, ok, FM_PAIRED_LEAST - 1, &p));
	CHECK(!fm_paired_compare(ok, ok, FM_PAIRED_MOST + 1, &p));
	CHECK(fm_paired_compare(ok, ok, FM_PAIRED_MOST, &p));
	bad[3] = 0;
	CHECK(!fm_paired_compare(ok, bad, N, &p));
	bad[3] = NAN;
	CHECK(!fm_paired_compare(bad, ok, N, &p));
}

// With ten pairs the exact chance is 4.9 %, whatever the noise is; four standard errors of 4,000
// trials are 1.4 points.
TEST(equal_programs_raise_as_few_alarms_as_are_promised)
{
	static const struct machine machines[] = {
		{ .noise = 0.003 },
		{ .noise = 0.003, .between = 0.26 },
		{ .noise = 0.003, .drift = 0.1 },
		{ .noise = 0.003, .late = 0.05 },
		{ .noise = 0.01, .upsets = 0.5 },
	};
	for (size_t i = 0; i < FM_ARRAY_LEN(machines); i++) {
		double share = share_found(&machines[i], 0);
		CHECK(share > 0.049 - 0.014 && share < 0.049 + 0.014);
	}
}

// The same where the base always comes first: what the second run of a pair has against it is taken
// for a change. That is what the random order is for.
TEST(without_random_order_a_machine_that_slows_down_is_a_change)
{
	const struct machine m = { .noise = 0.003, .late = 0.05, .in_order = true };
	CHECK(share_found(&m, 0) > 0.99);
}

TEST(the_interval_holds_the_true_change_in_95_of_100)
{
	const struct machine m = { .noise = 0.02, .between = 0.26 };
	unsigned n = 0;
	double base[N], head[N];
	for (unsigned i = 0; i < TRIALS; i++) {
		struct fm_paired p = run_pairs(&m, 0.07, base, head);
		n += p.low <= 0.07 && p.high >= 0.07;
	}
	double share = (double)n / TRIALS;
	CHECK(share > 0.951 - 0.014 && share < 0.951 + 0.014);
}

// 1 % under 0.3 % of noise in a run and 26 % between pairs; Welch's test of the same figures, which
// does not know what belongs together, finds next to nothing.
TEST(one_percent_is_found_where_machines_differ_by_26)
{
	const struct machine m = { .noise = 0.003, .between = 0.26 };
	unsigned n_paired = 0, n_welch = 0;
	double base[N], head[N];
	for (unsigned i = 0; i < TRIALS; i++) {
		n_paired += run_pairs(&m, 0.01, base, head).low > 0;
		double sum[2] = { 0 }, sq[2] = { 0 };
		for (unsigned k = 0; k < N; k++) {
			sum[0] += base[k], sq[0] += base[k] * base[k];
			sum[1] += head[k], sq[1] += head[k] * head[k];
		}
		double var = (sq[0] - sum[0] * sum[0] / N + sq[1] - sum[1] * sum[1] / N) / (N - 1) / N;
		n_welch += fm_student_p((sum[1] - sum[0]) / N / sqrt(var), 2 * N - 2) < 0.05;
	}
	CHECK(n_paired > 0.99 * TRIALS);
	CHECK(n_welch < 0.1 * TRIALS);
}

TEST_MAIN()
