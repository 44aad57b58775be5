// SPDX-License-Identifier: Apache-2.0
// What one input may take, as part of the verdict: CPU time, and memory that is in use at once.
// Both in proportion to what is read: a small file that makes a reader work for seconds is a
// finding, a large one that does is none.
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

// Under the sanitizers, which make everything some ten times slower. CPU time, so that a busy
// machine finds nothing.
#define LIMIT_S 1.0
#define LIMIT_S_PER_MB 4.0
#define LIMIT_RSS_KB (256l << 10)
#define LIMIT_RSS_KB_PER_MB (64l << 10)

struct limits {
	double cpu_s;
	long rss_kb; // the highest so far
};

static double limits_cpu_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static long limits_rss_kb(void)
{
	struct rusage usage;
	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_maxrss;
}

static inline struct limits limits_begin(void)
{
	return (struct limits){ limits_cpu_s(), limits_rss_kb() };
}

static inline void limits_end(const struct limits *before, size_t n_bytes)
{
	double mb = (double)n_bytes * 1e-6, cpu_s = limits_cpu_s() - before->cpu_s;
	long rss_kb = limits_rss_kb() - before->rss_kb;
	if (cpu_s < LIMIT_S + mb * LIMIT_S_PER_MB && rss_kb < LIMIT_RSS_KB + (long)(mb * LIMIT_RSS_KB_PER_MB))
		return;
	fprintf(stderr, "limits: %zu bytes took %.1f s and %ld KiB\n", n_bytes, cpu_s, rss_kb);
	abort();
}
