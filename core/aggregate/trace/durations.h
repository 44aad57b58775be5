// SPDX-License-Identifier: Apache-2.0
// How long things took: their number, sum and extremes, and how many of each length. Lengths are
// in buckets, eight an octave: a percentile is right to 7 %.
#pragma once

#include <stdint.h>

#include "base/compiler.h"
#include "base/mem.h"

#define FM_DURATION_BUCKETS 496

static inline unsigned fm_duration_bucket(uint64_t ns)
{
	if (ns < 8)
		return (unsigned)ns;
	unsigned log2 = 63 - (unsigned)__builtin_clzll(ns);
	return (log2 - 2) * 8 + (unsigned)(ns >> (log2 - 3) & 7);
}

// The shortest duration in a bucket; that of the next bucket is where it ends.
static inline uint64_t fm_duration_bucket_from(unsigned bucket)
{
	return bucket < 8 ? bucket : (uint64_t)(8 + bucket % 8) << (bucket / 8 - 1);
}

static inline uint64_t fm_duration_bucket_middle(unsigned bucket)
{
	return bucket < 8 ? bucket : fm_duration_bucket_from(bucket) + ((1ull << (bucket / 8 - 1)) >> 1);
}

// A zeroed struct holds none. Its buckets are to be freed.
struct fm_durations {
	uint64_t n, sum_ns;
	uint64_t min_ns, max_ns; // 0 when there is none
	uint64_t *buckets;       // FM_DURATION_BUCKETS; NULL when there is none
};

static inline void fm_durations_add(struct fm_durations *d, uint64_t ns)
{
	d->min_ns = d->n ? FM_MIN(d->min_ns, ns) : ns;
	d->max_ns = FM_MAX(d->max_ns, ns);
	d->n++;
	d->sum_ns += ns;
	if (FM_UNLIKELY(!d->buckets))
		d->buckets = fm_alloc(FM_DURATION_BUCKETS * sizeof(*d->buckets));
	d->buckets[fm_duration_bucket(ns)]++;
}

static inline void fm_durations_merge(struct fm_durations *d, const struct fm_durations *more)
{
	if (!more->n)
		return;
	d->min_ns = d->n ? FM_MIN(d->min_ns, more->min_ns) : more->min_ns;
	d->max_ns = FM_MAX(d->max_ns, more->max_ns);
	d->n += more->n;
	d->sum_ns += more->sum_ns;
	if (!d->buckets)
		d->buckets = fm_alloc(FM_DURATION_BUCKETS * sizeof(*d->buckets));
	for (unsigned i = 0; i < FM_DURATION_BUCKETS; i++)
		d->buckets[i] += more->buckets[i];
}

static inline uint64_t fm_durations_mean_ns(const struct fm_durations *d)
{
	return d->n ? d->sum_ns / d->n : 0;
}

// The duration that a share of them does not exceed. 0 when there is none.
static inline uint64_t fm_durations_percentile_ns(const struct fm_durations *d, double share)
{
	if (!d->buckets)
		return 0;
	uint64_t want = (uint64_t)(share * (double)d->n), seen = 0;
	want = FM_MAX(want, (uint64_t)1);
	for (unsigned i = 0; i < FM_DURATION_BUCKETS; i++) {
		seen += d->buckets[i];
		if (seen >= want) // a bucket's middle may lie beyond all its durations
			return FM_MIN(FM_MAX(fm_duration_bucket_middle(i), d->min_ns), d->max_ns);
	}
	return d->max_ns;
}
