// SPDX-License-Identifier: Apache-2.0
// Durations in buckets, eight an octave: a percentile is right to 7 %.
#pragma once

#include <stdint.h>

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
