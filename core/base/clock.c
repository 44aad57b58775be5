// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"

#include "base/system_call.h"

int (*fm_clock_vdso)(clockid_t clock, struct timespec *ret);

uint64_t fm_clock_ns(clockid_t clock)
{
	struct timespec ts = { 0 };
	// The kernel's part of this process knows no thread's CPU time: it would go on to ask the
	// kernel.
	if (clock != CLOCK_MONOTONIC || !fm_clock_vdso || fm_clock_vdso(clock, &ts) != 0)
		fm_system_call(SYS_clock_gettime, clock, (long)&ts, 0, 0);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void fm_sleep_until_ns(uint64_t ns)
{
	struct timespec until = { .tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u) };
	fm_system_call(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, (long)&until, 0);
}
