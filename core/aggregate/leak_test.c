#include "aggregate/leak_test.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"

#define N_CHECKPOINTS 12
#define WARM_UP 0.2
#define MIN_AGE_S 1.0
#define MIN_AGE_SHARE 0.1
#define MAX_AGE_SHARE (1.0 / 3)
#define LIFETIMES 4
#define FEW_FREED 0.02 // so few say nothing of how long blocks live: the list that keeps the others was one of them
#define MAX_DOUBT 0.05
#define MIN_LATE_SHARE 0.25
#define MIN_RISES 3          // what grows once or twice was loaded, not lost bit by bit
#define MANN_KENDALL_Z 2.326 // one-sided p < 0.01
#define STUDENT_10 2.228     // 95 %, for 12 points on a line

// The posterior of the survival probability after seeing `freed` of n freed is Beta(n - freed + 1, freed + 1). How likely
// it is at most one half: the upper tail of a binomial.
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

// Blocks that had the time to grow old before the end, and how many of them were freed.
static struct births count_old(const struct fm_leak_block *blocks, size_t n, double end_s, double age_s)
{
	struct births b = { 0, 0 };
	for (size_t i = 0; i < n; i++) {
		if (blocks[i].born_s > end_s - age_s)
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

static double median_lifetime(const struct fm_leak_block *blocks, size_t n, double end_s)
{
	double *lives = fm_alloc((n + 1) * sizeof(*lives)), all = 0, freed = 0;
	size_t n_lives = 0;
	for (size_t i = 0; i < n; i++) {
		all += blocks[i].n;
		if (blocks[i].freed_s > end_s)
			continue;
		freed += blocks[i].n;
		lives[n_lives++] = blocks[i].freed_s - blocks[i].born_s;
	}
	qsort(lives, n_lives, sizeof(*lives), compare_doubles);
	double median = freed > all * FEW_FREED ? lives[n_lives / 2] : 0;
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

bool fm_leak_test(const struct fm_leak_block *blocks, size_t n, double begin_s, double end_s,
		  struct fm_leak_verdict *ret)
{
	double run_s = end_s - begin_s;
	if (run_s < FM_LEAK_MIN_RUN_S)
		return false;
	double age_s = fmax(MIN_AGE_S, run_s * MIN_AGE_SHARE);
	struct births old = count_old(blocks, n, end_s, age_s);
	if (doubt(old.n, old.n_freed) > MAX_DOUBT) // the common case, without sorting
		return false;
	age_s = fmax(age_s, LIFETIMES * median_lifetime(blocks, n, end_s));
	if (age_s > run_s * MAX_AGE_SHARE)
		return false; // blocks live so long here that the run is too short to call one lost
	old = count_old(blocks, n, end_s, age_s);
	if (doubt(old.n, old.n_freed) > MAX_DOUBT)
		return false;

	double times[N_CHECKPOINTS], bytes[N_CHECKPOINTS] = { 0 }, variance = 0;
	double first_s = begin_s + fmax(run_s * WARM_UP, age_s), span_s = end_s - first_s;
	for (unsigned k = 0; k < N_CHECKPOINTS; k++) {
		times[k] = first_s + span_s * k / (N_CHECKPOINTS - 1);
		for (size_t i = 0; i < n; i++)
			if (blocks[i].born_s <= times[k] - age_s && blocks[i].freed_s > times[k])
				bytes[k] += blocks[i].weight;
	}
	for (size_t i = 0; i < n; i++)
		if (blocks[i].born_s > first_s - age_s && blocks[i].born_s <= end_s - age_s &&
		    blocks[i].freed_s > end_s)
			variance += blocks[i].weight * (blocks[i].weight - blocks[i].size);
	double error, velocity = slope_of(times, bytes, N_CHECKPOINTS, &error);
	double plus_minus = fmax(STUDENT_10 * error, 1.96 * sqrt(variance) / span_s);
	unsigned third = N_CHECKPOINTS / 3;
	double late = slope_of(times + N_CHECKPOINTS - third, bytes + N_CHECKPOINTS - third, third, NULL);
	if (count_rises(bytes, N_CHECKPOINTS) < MIN_RISES || !has_trend(bytes, N_CHECKPOINTS) ||
	    velocity - plus_minus <= 0 || velocity < FM_LEAK_MIN_VELOCITY || late < MIN_LATE_SHARE * velocity)
		return false;
	*ret = (struct fm_leak_verdict){ .likelihood = (old.n - old.n_freed + 1) / (old.n + 2),
					 .velocity = velocity,
					 .velocity_plus_minus = plus_minus,
					 .bytes = bytes[N_CHECKPOINTS - 1],
					 .min_age_s = age_s };
	return true;
}
