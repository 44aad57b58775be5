// SPDX-License-Identifier: Apache-2.0
// The clock every event of a profile is stamped with: CLOCK_MONOTONIC in nanoseconds. And the cycle
// counter.
//
// The kernel is asked, and never libc: another preloaded library may stand in front of
// clock_gettime (libfaketime does), tell other times, and take a lock of its own in the middle of
// our handler.
#pragma once

#include <stdint.h>
#include <time.h>

// The kernel's own code in this process for CLOCK_MONOTONIC, four times as fast as a call; NULL: it
// was not looked for.
extern __attribute__((visibility("hidden"))) int (*fm_clock_vdso)(clockid_t clock, struct timespec *ret);

uint64_t fm_clock_ns(clockid_t clock);

static inline uint64_t fm_now_ns(void)
{
	return fm_clock_ns(CLOCK_MONOTONIC);
}

void fm_sleep_until_ns(uint64_t ns);

// The CPU's cycle counter, for times too short to ask the system for. Its rate is constant but has
// to be measured.
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
