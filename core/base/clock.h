// The clock every event of a profile is stamped with: CLOCK_MONOTONIC in nanoseconds. And the cycle counter.
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

// The CPU's cycle counter, for times too short to ask the system for. Its rate is constant but has to be measured.
static inline uint64_t fm_cycles(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#else
	uint64_t v;
	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(v));
	return v;
#endif
}
