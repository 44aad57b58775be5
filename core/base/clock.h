// The clock every event of a profile is stamped with: CLOCK_MONOTONIC in nanoseconds.
#pragma once

#include <stdint.h>
#include <time.h>

static inline uint64_t fm_clock_ns(clockid_t clock)
{
	struct timespec ts;
	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline uint64_t fm_now_ns(void)
{
	return fm_clock_ns(CLOCK_MONOTONIC);
}
