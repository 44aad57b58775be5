// SPDX-License-Identifier: Apache-2.0
// The leak test against programs whose answer is known: what leaks is found, what does not is left
// alone.
#include "test.h"

#include <math.h>

#include "aggregate/heap/leak_test.h"
#include "base/compiler.h"
#include "support/dice.h"

#define RUN_S 60.0
#define N_SEEDS 20
#define MEAN_BYTES 131072.0 // of the default sampling, in a thread that allocates much
#define QUIET_BYTES 16384.0 // in one that allocates little: some megabytes a second

// What the sampler sees of a program that makes a block of `size` bytes now.
struct seen {
	struct fm_leak_block blocks[200000];
	size_t n;
	double mean; // of the sampling; 0 = every block
};
static struct seen seen;

static void make_block(double born_s, double freed_s, double size)
{
	double p = seen.mean > 0 && size < 2 * seen.mean ? 1 - exp(-size / seen.mean) : 1;
	if (dice_share() >= p)
		return;
	CHECK(seen.n < FM_ARRAY_LEN(seen.blocks));
	seen.blocks[seen.n++] = (struct fm_leak_block){ born_s, freed_s, size / p, size, 1 };
}

// ---- what leaks ----

static void leak_steadily(double bytes_s, double size)
{
	for (double t = dice_share() * size / bytes_s; t < RUN_S; t += size / bytes_s)
		make_block(t, INFINITY, size);
}

static void leak_1_mb_a_minute_fine(void)
{
	seen.mean = MEAN_BYTES / 16; // --precision 4
	leak_steadily(1e6 / 60, 200);
}
static void leak_1_mb_a_minute_in_a_quiet_thread(void)
{
	seen.mean = QUIET_BYTES;
	leak_steadily(1e6 / 60, 200);
}
static void leak_8_mb_a_minute(void)
{
	leak_steadily(8e6 / 60, 100);
}
static void leak_large_blocks(void)
{
	leak_steadily(3e6, 3e6);
}
static void leak_every_block(void)
{
	seen.mean = 0;
	leak_steadily(1e6 / 60, 1000);
}
static void leak_a_fifth_of_all(void) // most of what the line makes is freed at once, and tells nothing of the others
{
	for (double t = 0; t < RUN_S; t += 0.01)
		make_block(t, dice_share() < 0.2 ? INFINITY : t + 0.05, 20000);
}
static void leak_in_bursts(void)
{
	for (double t = 0; t < RUN_S; t += 4)
		for (int i = 0; i < 50; i++)
			make_block(t + 0.001 * i, INFINITY, 40000);
}
static void leak_with_some_temporaries(void)
{
	for (double t = 0; t < RUN_S; t += 0.02)
		make_block(t, dice_share() < 0.75 ? INFINITY : t + 0.1, 20000);
}

static void grow_room(double at_s, double bytes) // as a dictionary's: twice as much when it is full
{
	static double born_s, size;
	if (at_s == 0)
		born_s = 0, size = 300000;
	for (; at_s == INFINITY || bytes > size; born_s = at_s, size *= 2) {
		make_block(born_s, at_s == INFINITY ? INFINITY : at_s + 0.001, size);
		if (at_s == INFINITY)
			return;
	}
}
static void leak_in_a_dictionary(void)
{
	for (double t = 0; t < RUN_S; t += 0.02) {
		make_block(t, INFINITY, 20000);
		grow_room(t, 0.2e6 * t); // from that to twice as much
	}
	grow_room(INFINITY, 0);
}

// ---- what does not ----

static void
cache_with_eviction_beside_churn(void) // holds what is younger than 40 s; most of the line's blocks are gone at once
{
	double life_s = 25 + 30 * dice_share();
	for (double t = 0; t < RUN_S; t += 0.02) {
		make_block(t, t + life_s < RUN_S ? t + life_s : INFINITY, 20000);
		for (int i = 0; i < 4; i++)
			make_block(t, t + 0.01, 20000);
	}
}
static void lifetimes_of_many_lengths_beside_churn(void) // exponential, mean 8 s
{
	for (double t = 0; t < RUN_S; t += 0.01) {
		double end = t - 8 * log(1 - dice_share());
		make_block(t, end < RUN_S ? end : INFINITY, 20000);
		make_block(t, t + 0.01, 20000);
	}
}

static void cache_that_plateaus(void)
{
	double until = RUN_S * (0.2 + 0.3 * dice_share());
	for (double t = 0; t < until; t += 0.01)
		make_block(t, INFINITY, 20000);
}
static void cache_with_eviction(void) // holds the last 500
{
	for (double t = 0; t < RUN_S; t += 0.02)
		make_block(t, t + 10 < RUN_S ? t + 10 : INFINITY, 20000);
}
static void sawtooth(void)
{
	double period = 3 + 12 * dice_share();
	for (double t = 0; t < RUN_S; t += 0.01) {
		double end = (floor(t / period) + 1) * period;
		make_block(t, end < RUN_S ? end : INFINITY, 20000);
	}
}
static void warm_up(void)
{
	for (double t = 0; t < RUN_S * 0.15; t += 0.003)
		make_block(t, INFINITY, 20000);
}
static void one_off(void)
{
	double at = RUN_S * dice_share();
	make_block(at, INFINITY, 400e6);
	for (double t = 0; t < RUN_S; t += 0.05)
		make_block(t, t + 0.01, 100000);
}
static void churn(void)
{
	for (double t = 0; t < RUN_S; t += 0.0005)
		make_block(t, t + 0.3 * dice_share(), 60000);
}
static void random_lifetimes(void) // exponential, mean 5 s: heavy, but bounded
{
	for (double t = 0; t < RUN_S; t += 0.01) {
		double end = t - 5 * log(1 - dice_share());
		make_block(t, end < RUN_S ? end : INFINITY, 20000);
	}
}
static void grows_and_is_given_back(void)
{
	for (double t = 0; t < RUN_S; t += 0.01)
		make_block(t, RUN_S * 0.9, 20000);
}
static void three_large_ones(void)
{
	for (int i = 1; i <= 3; i++)
		make_block(RUN_S * i / 4, INFINITY, 100e6);
}

// Once, at any time.
static void load_at_once(void)
{
	double at = RUN_S * (0.2 + 0.7 * dice_share());
	for (int i = 0; i < 20; i++)
		make_block(at, INFINITY, 4e6);
}
// A table that is read at the start and kept, and a buffer that comes and goes beside it: what is
// held wavers. Near the end more is loaded, once. A line through that rises; but of two moments,
// the later had more in hardly more than half of all cases, and by chance as often as not.
static void wavering(void)
{
	for (int i = 0; i < 4000; i++)
		make_block(0.001 * i, INFINITY, 2 * MEAN_BYTES);
	for (double t = 5; t + 8 < RUN_S; t += 2 * 0.8 * RUN_S / 11)
		make_block(t, t + 8, 1e6);
	double at = RUN_S * (0.76 + 0.06 * dice_share());
	for (int i = 0; i < 20; i++)
		make_block(at, INFINITY, 4e6);
}

static bool judge(void (*program)(void), uint64_t seed, double mean, struct fm_leak_verdict *ret)
{
	dice_state = seed * 1000003;
	seen.n = 0;
	seen.mean = mean;
	program();
	fm_leak_join_moved(seen.blocks, seen.n);
	return fm_leak_test(seen.blocks, seen.n, 0, RUN_S, ret) == FM_LEAK_YES;
}

#define FOUND(program, true_bytes_s)                                                                   \
	TEST(finds_##program)                                                                          \
	{                                                                                              \
		unsigned n_covered = 0;                                                                \
		for (uint64_t seed = 1; seed <= N_SEEDS; seed++) {                                     \
			struct fm_leak_verdict v;                                                      \
			CHECK(judge(program, seed, MEAN_BYTES, &v));                                   \
			CHECK(v.likelihood > 0.5 && v.likelihood <= 1);                                \
			CHECK(v.bytes > 0 && v.velocity_plus_minus > 0);                               \
			n_covered += fabs(v.velocity - (true_bytes_s)) <= 1.5 * v.velocity_plus_minus; \
		}                                                                                      \
		/* 1.5 times a 95 % interval holds 99.7 % of a normal; bursts are not quite one. */    \
		CHECK(n_covered >= N_SEEDS - 3);                                                       \
	}
#define LEFT_ALONE(program)                                            \
	TEST(leaves_##program##_alone)                                 \
	{                                                              \
		for (uint64_t seed = 1; seed <= N_SEEDS; seed++) {     \
			struct fm_leak_verdict v;                      \
			CHECK(!judge(program, seed, MEAN_BYTES, &v));  \
			CHECK(!judge(program, seed, QUIET_BYTES, &v)); \
		}                                                      \
	}

FOUND(leak_1_mb_a_minute_fine, 1e6 / 60)
FOUND(leak_1_mb_a_minute_in_a_quiet_thread, 1e6 / 60)
FOUND(leak_8_mb_a_minute, 8e6 / 60)
FOUND(leak_large_blocks, 3e6)
FOUND(leak_every_block, 1e6 / 60)
FOUND(leak_in_bursts, 50 * 40000 / 4.0)
FOUND(leak_with_some_temporaries, 0.75 * 20000 / 0.02)
FOUND(leak_a_fifth_of_all, 0.2 * 20000 / 0.01)
FOUND(leak_in_a_dictionary, 1e6 + 0.3e6)
LEFT_ALONE(cache_that_plateaus)
LEFT_ALONE(cache_with_eviction_beside_churn)
LEFT_ALONE(lifetimes_of_many_lengths_beside_churn)
LEFT_ALONE(cache_with_eviction)
LEFT_ALONE(sawtooth)
LEFT_ALONE(warm_up)
LEFT_ALONE(one_off)
LEFT_ALONE(churn)
LEFT_ALONE(random_lifetimes)
LEFT_ALONE(grows_and_is_given_back)
LEFT_ALONE(three_large_ones)
LEFT_ALONE(wavering)
LEFT_ALONE(load_at_once)

TEST(short_runs_claim_nothing)
{
	struct fm_leak_verdict v;
	dice_state = 1;
	seen.n = 0;
	seen.mean = 0;
	for (double t = 0; t < FM_LEAK_MIN_RUN_S; t += 0.01)
		make_block(t, INFINITY, 1e6);
	CHECK_EQ(fm_leak_test(seen.blocks, seen.n, 0, FM_LEAK_MIN_RUN_S - 0.01, &v), FM_LEAK_TOO_SHORT);
	CHECK(v.bytes > 490e6 && v.bytes <= 500e6);
	CHECK_EQ(fm_leak_test(seen.blocks, seen.n, 0, FM_LEAK_MIN_RUN_S, &v), FM_LEAK_YES);
	CHECK_EQ(fm_leak_test(seen.blocks, seen.n, 0, FM_LEAK_MIN_DOUBT_RUN_S / 2, &v), FM_LEAK_NO);
	CHECK_EQ(fm_leak_test(NULL, 0, 0, 60, &v), FM_LEAK_NO);
}

TEST_MAIN()
