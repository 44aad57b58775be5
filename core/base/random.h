// SPDX-License-Identifier: Apache-2.0
// A random number generator for schedules and draws: xorshift, of 64 bits. Plain: also used at
// signal time.
#pragma once

#include <stdint.h>

// The next number; *state is never 0.
static inline uint64_t fm_random_next(uint64_t *state)
{
	uint64_t x = *state;
	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return *state = x;
}

// Uniform in half a period to one and a half: no beat of a program can stay in step with that.
static inline uint64_t fm_random_around(uint64_t *state, uint64_t period)
{
	return period / 2 + fm_random_next(state) % (period + 1);
}
