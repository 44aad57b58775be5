// SPDX-License-Identifier: Apache-2.0
#include "aggregate/tally/weight.h"
#include "aggregate/heap/leak_test.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/mem.h"

#define N_CHECKPOINTS 12
#define WARM_UP 0.2
#define MIN_AGE_S 1.0
#define MIN_AGE_SHARE 0.1
#define MAX_AGE_SHARE (1.0 / 3)
#define LIFETIMES 4
#define FEW_FREED 0.02     // so few say nothing of how long blocks live: the list that keeps the others was one of them
#define FEW_OLD_FREED 0.05 // of those that grew old: more of them say how long a place keeps what it keeps
#define MAX_DOUBT 0.05
#define FEWEST_BLOCKS 4 // that are all kept: one fewer leaves a doubt of 1/16
#define MIN_LATE_SHARE 0.25
#define MIN_RISES 3          // what grows once or twice was loaded, not lost bit by bit
#define MANN_KENDALL_Z 2.326 // one-sided p < 0.01
#define STUDENT_10 2.228     // 95 %, for 12 points on a line

// The posterior of the survival probability after seeing `freed` of n freed is Beta(n - freed + 1,
// freed + 1). How likely it is at most one half: the upper tail of a binomial.
static double doubt(double n_blocks, double n_freed)
{
	size_t n = (size_t)(n_blocks + 0.5), freed = FM_MIN((size_t)(n_freed + 0.5), n);
	double trials = (double)n + 1, least = (double)(n - freed) + 1;
	if (trials > 1000) { // the normal curve is good enough there
		double z = (least - 0.5 - trials / 2) / sqrt(trials / 4);
		return 0.5 * erfc(z / sqrt(2));
	}
	double sum = 0;
	for (size_t i = 0; i <= freed; i++) {
		double k = least + (double)i;
		sum += exp(lgamma(trials + 1) - lgamma(k + 1) - lgamma(trials - k + 1) - trials * log(2));
	}
	return sum;
}

struct births {
	double n, n_freed;
};

static bool grew_old(const struct fm_leak_block *block, double end_s, double age_s)
{
	return block->born_s <= end_s - age_s && block->freed_s > block->born_s + age_s;
}

// Blocks that grew old before the end, and how many of them were freed then. What the same line
// frees at once tells nothing of those that it keeps.
static struct births count_old(const struct fm_leak_block *blocks, size_t n, double end_s, double age_s)
{
	struct births b = { 0, 0 };
	for (size_t i = 0; i < n; i++) {
		if (!grew_old(&blocks[i], end_s, age_s))
			continue;
		b.n += blocks[i].n;
		b.n_freed += blocks[i].freed_s <= end_s ? blocks[i].n : 0;
	}
	return b;
}

static int compare_doubles(const void *pa, const void *pb)
{
	double a = *(const double *)pa, b = *(const double *)pb;
	return (a > b) - (a < b);
}

// Of the freed ones that lived longer than age_s; 0 when these are too small a part of all that
// did.
static double median_lifetime(const struct fm_leak_block *blocks, size_t n, double end_s, double age_s, double few)
{
	double *lives = fm_alloc((n + 1) * sizeof(*lives)), all = 0, freed = 0;
	size_t n_lives = 0;
	for (size_t i = 0; i < n; i++) {
		if (age_s > 0 && !grew_old(&blocks[i], end_s, age_s))
			continue;
		all += blocks[i].n;
		if (blocks[i].freed_s > end_s)
			continue;
		freed += blocks[i].n;
		lives[n_lives++] = blocks[i].freed_s - blocks[i].born_s;
	}
	qsort(lives, n_lives, sizeof(*lives), compare_doubles);
	double median = freed > all * few ? lives[n_lives / 2] : 0;
	free(lives);
	return median;
}

static double slope_of(const double *t, const double *y, unsigned n, double *ret_error)
{
	double mean_t = 0, mean_y = 0, tt = 0, ty = 0, rest = 0;
	for (unsigned i = 0; i < n; i++) {
		mean_t += t[i] / n;
		mean_y += y[i] / n;
	}
	for (unsigned i = 0; i < n; i++) {
		tt += (t[i] - mean_t) * (t[i] - mean_t);
		ty += (t[i] - mean_t) * (y[i] - mean_y);
	}
	double slope = tt > 0 ? ty / tt : 0;
	for (unsigned i = 0; i < n; i++) {
		double e = y[i] - mean_y - slope * (t[i] - mean_t);
		rest += e * e;
	}
	if (ret_error)
		*ret_error = tt > 0 && n > 2 ? sqrt(rest / (n - 2) / tt) : 0;
	return slope;
}

// Mann-Kendall with the correction for ties: is there a trend upwards, whatever its shape?
static bool has_trend(const double *y, unsigned n)
{
	double s = 0, var = (double)n * (n - 1) * (2.0 * n + 5);
	for (unsigned i = 0; i < n; i++) {
		unsigned n_equal = 1;
		bool is_first = true;
		for (unsigned k = 0; k < n; k++) {
			if (k > i)
				s += (y[k] > y[i]) - (y[k] < y[i]);
			if (k != i && y[k] == y[i]) {
				n_equal++;
				is_first &= k > i;
			}
		}
		if (is_first)
			var -= (double)n_equal * (n_equal - 1) * (2.0 * n_equal + 5);
	}
	return var > 0 && s > 0 && (s - 1) / sqrt(var / 18) > MANN_KENDALL_Z;
}

static unsigned count_rises(const double *y, unsigned n)
{
	unsigned n_rises = 0;
	for (unsigned i = 1; i < n; i++)
		n_rises += y[i] > y[i - 1];
	return n_rises;
}

struct checkpoints {
	double times[N_CHECKPOINTS], bytes[N_CHECKPOINTS];
};

// What was held at twelve moments of blocks that were older than age_s then.
static void look_back(struct checkpoints *c, const struct fm_leak_block *blocks, size_t n, double first_s, double end_s,
		      double age_s)
{
	for (unsigned k = 0; k < N_CHECKPOINTS; k++) {
		c->times[k] = first_s + (end_s - first_s) * k / (N_CHECKPOINTS - 1);
		c->bytes[k] = 0;
		for (size_t i = 0; i < n; i++)
			if (blocks[i].born_s <= c->times[k] - age_s && blocks[i].freed_s > c->times[k])
				c->bytes[k] += blocks[i].weight;
	}
}

static double late_slope(const struct checkpoints *c)
{
	unsigned third = N_CHECKPOINTS / 3;
	return slope_of(c->times + N_CHECKPOINTS - third, c->bytes + N_CHECKPOINTS - third, third, NULL);
}

// All that it held rose to the very end: had the run gone on, it might have been a leak.
static bool grows_to_the_end(const struct fm_leak_block *blocks, size_t n, double begin_s, double end_s, double *ret)
{
	struct checkpoints c;
	look_back(&c, blocks, n, begin_s + (end_s - begin_s) * WARM_UP, end_s, 0);
	double slope = slope_of(c.times, c.bytes, N_CHECKPOINTS, NULL);
	*ret = c.bytes[N_CHECKPOINTS - 1];
	return *ret >= FM_LEAK_MIN_DOUBT_BYTES && count_rises(c.bytes, N_CHECKPOINTS) >= MIN_RISES &&
	       has_trend(c.bytes, N_CHECKPOINTS) && late_slope(&c) >= MIN_LATE_SHARE * slope;
}

static enum fm_leak_answer doubt_it(enum fm_leak_answer why, const struct fm_leak_block *blocks, size_t n,
				    double begin_s, double end_s, struct fm_leak_verdict *ret)
{
	double bytes;
	if (end_s - begin_s < FM_LEAK_MIN_DOUBT_RUN_S || !grows_to_the_end(blocks, n, begin_s, end_s, &bytes))
		return FM_LEAK_NO;
	*ret = (struct fm_leak_verdict){ .bytes = bytes };
	return why;
}

static bool rises(const struct checkpoints *c, double variance, double *ret_velocity, double *ret_plus_minus)
{
	double error, velocity = slope_of(c->times, c->bytes, N_CHECKPOINTS, &error);
	double span_s = c->times[N_CHECKPOINTS - 1] - c->times[0];
	*ret_velocity = velocity;
	*ret_plus_minus = fmax(STUDENT_10 * error, fm_interval(variance) / span_s);
	return count_rises(c->bytes, N_CHECKPOINTS) >= MIN_RISES && has_trend(c->bytes, N_CHECKPOINTS) &&
	       velocity - *ret_plus_minus > 0 && velocity >= FM_LEAK_MIN_VELOCITY &&
	       late_slope(c) >= MIN_LATE_SHARE * velocity;
}

enum fm_leak_answer fm_leak_test(const struct fm_leak_block *blocks, size_t n, double begin_s, double end_s,
				 struct fm_leak_verdict *ret)
{
	double run_s = end_s - begin_s;
	if (run_s < FM_LEAK_MIN_RUN_S)
		return doubt_it(FM_LEAK_TOO_SHORT, blocks, n, begin_s, end_s, ret);
	double age_s = fmax(MIN_AGE_S, run_s * MIN_AGE_SHARE);
	struct births old = count_old(blocks, n, end_s, age_s);
	if (old.n < FEWEST_BLOCKS && old.n_freed == 0)
		return doubt_it(FM_LEAK_TOO_FEW, blocks, n, begin_s, end_s, ret);
	if (doubt(old.n, old.n_freed) > MAX_DOUBT) // the common case, without sorting
		return FM_LEAK_NO;
	double life_s = fmax(median_lifetime(blocks, n, end_s, 0, FEW_FREED),
			     median_lifetime(blocks, n, end_s, age_s, FEW_OLD_FREED));
	age_s = fmax(age_s, LIFETIMES * life_s);
	if (age_s > run_s * MAX_AGE_SHARE) // blocks live so long here that the run is too short to call one lost
		return FM_LEAK_NO;
	old = count_old(blocks, n, end_s, age_s);
	if (doubt(old.n, old.n_freed) > MAX_DOUBT)
		return FM_LEAK_NO;

	double first_s = begin_s + fmax(run_s * WARM_UP, age_s), variance = 0, velocity, plus_minus;
	struct checkpoints c;
	look_back(&c, blocks, n, first_s, end_s, age_s);
	for (size_t i = 0; i < n; i++)
		if (blocks[i].born_s > first_s - age_s && blocks[i].born_s <= end_s - age_s &&
		    blocks[i].freed_s > end_s)
			variance += blocks[i].weight * (blocks[i].weight - blocks[i].size);
	if (!rises(&c, variance, &velocity, &plus_minus))
		return FM_LEAK_NO;
	*ret = (struct fm_leak_verdict){ .likelihood = (old.n - old.n_freed + 1) / (old.n + 2),
					 .velocity = velocity,
					 .velocity_plus_minus = plus_minus,
					 .bytes = c.bytes[N_CHECKPOINTS - 1],
					 .min_age_s = age_s };
	return FM_LEAK_YES;
}

enum fm_leak_answer fm_leak_doubt_sums(const struct fm_leak_block *blocks, size_t n, double begin_s, double end_s,
				       struct fm_leak_verdict *ret)
{
	return doubt_it(FM_LEAK_NO_BLOCKS, blocks, n, begin_s, end_s, ret);
}

// Smaller blocks are sampled, and the one before the one that was drawn is hardly ever drawn, too.
#define MIN_MOVED_BYTES 262144.0
// The new room is there before the old one is given back; between the two lies the copying.
#define MAX_MOVE_S 0.1
#define MAX_MOVE_GROWTH 4.5    // dictionaries of some versions grow four times
#define MAX_MOVE_CANDIDATES 16 // that are looked at, on a line that makes large blocks all the time

static struct fm_leak_block *find_old_room(struct fm_leak_block *blocks, size_t at)
{
	struct fm_leak_block *best = NULL;
	unsigned n_seen = 0;
	for (size_t i = at; i-- > 0 && n_seen < MAX_MOVE_CANDIDATES;) {
		struct fm_leak_block *b = &blocks[i];
		if (b->size < MIN_MOVED_BYTES)
			continue;
		n_seen++;
		double gap_s = b->freed_s - blocks[at].born_s;
		if (gap_s >= -MAX_MOVE_S && gap_s <= MAX_MOVE_S && b->size < blocks[at].size &&
		    b->size * MAX_MOVE_GROWTH >= blocks[at].size &&
		    (!best || fabs(gap_s) < fabs(best->freed_s - blocks[at].born_s)))
			best = b;
	}
	return best;
}

void fm_leak_join_moved(struct fm_leak_block *blocks, size_t n)
{
	// From the last: when a block takes over from the one before it, its own end is final.
	for (size_t i = n; i-- > 0;) {
		if (blocks[i].size < MIN_MOVED_BYTES)
			continue;
		struct fm_leak_block *old = find_old_room(blocks, i);
		if (!old)
			continue;
		old->freed_s = blocks[i].freed_s;
		blocks[i].weight -= old->weight;
		blocks[i].size -= old->size;
	}
}
