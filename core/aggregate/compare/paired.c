// SPDX-License-Identifier: Apache-2.0
#include "aggregate/compare/paired.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

#define ALPHA 0.05

static int compare_doubles(const void *pa, const void *pb)
{
	double a = *(const double *)pa, b = *(const double *)pb;
	return (a > b) - (a < b);
}

static double median_of_sorted(const double *sorted, size_t n)
{
	return (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
}

static double median(const double *values, unsigned n)
{
	double sorted[FM_PAIRED_MOST];
	memcpy(sorted, values, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), compare_doubles);
	return median_of_sorted(sorted, n);
}

// The signed-rank distribution: each of the ranks 1 ... n is in the sum by the fall of a coin. ret[s]
// is the chance of the sum s; the caller's to free.
static double *rank_sums(unsigned n)
{
	size_t most = (size_t)n * (n + 1) / 2, reached = 0;
	double *chance = fm_alloc((most + 1) * sizeof(*chance));
	chance[0] = 1;
	for (unsigned rank = 1; rank <= n; rank++) {
		reached += rank;
		for (size_t s = reached + 1; s-- > 0;)
			chance[s] = (chance[s] + (s >= rank ? chance[s - rank] : 0)) / 2;
	}
	return chance;
}

int fm_paired_critical(unsigned n, double alpha)
{
	double *chance = rank_sums(n), below = 0;
	int s = 0;
	for (int most = (int)(n * (n + 1) / 2); s <= most && 2 * (below + chance[s]) <= alpha; s++)
		below += chance[s];
	free(chance);
	return s - 1;
}

// Values that are 0, as coarse clocks give them, speak for no difference, so both sides get them.
static double chance_of(const double *sorted, size_t m, unsigned n)
{
	size_t n_below = 0, n_above = 0;
	for (size_t i = 0; i < m; i++) {
		n_below += sorted[i] < 0;
		n_above += sorted[i] > 0;
	}
	double *chance = rank_sums(n), p = 0;
	for (size_t s = 0; s <= m - FM_MAX(n_below, n_above); s++)
		p += 2 * chance[s];
	free(chance);
	return FM_MIN(p, 1.0);
}

bool fm_paired_compare(const double *base, const double *head, unsigned n, struct fm_paired *ret)
{
	double ratios[FM_PAIRED_MOST];
	if (n < FM_PAIRED_LEAST || n > FM_PAIRED_MOST)
		return false;
	for (unsigned i = 0; i < n; i++) {
		if (!(base[i] > 0) || !(head[i] > 0))
			return false;
		ratios[i] = log(head[i] / base[i]);
	}
	// Walsh's averages: the middle of each two differences, and each by itself.
	size_t m = 0;
	double *averages = fm_alloc((size_t)n * (n + 1) / 2 * sizeof(*averages));
	for (unsigned i = 0; i < n; i++)
		for (unsigned k = 0; k <= i; k++)
			averages[m++] = (ratios[i] + ratios[k]) / 2;
	qsort(averages, m, sizeof(*averages), compare_doubles);
	size_t outside = (size_t)fm_paired_critical(n, ALPHA);
	*ret = (struct fm_paired){ .n = n,
				   .base = median(base, n),
				   .head = median(head, n),
				   .change = expm1(median_of_sorted(averages, m)),
				   .low = expm1(averages[outside]),
				   .high = expm1(averages[m - 1 - outside]),
				   .p = chance_of(averages, m, n) };
	ret->is_significant = ret->low > 0 || ret->high < 0;
	free(averages);
	return true;
}
