// SPDX-License-Identifier: Apache-2.0
// Random numbers for tests and made-up captures: splitmix64, for a seed the same sequence in every
// run.
#pragma once

#include <stdint.h>

static uint64_t dice_state; // any seed is a good one

static inline uint64_t dice(void)
{
	uint64_t x = dice_state += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static inline uint64_t dice_below(uint64_t n)
{
	return (uint64_t)((unsigned __int128)dice() * n >> 64);
}

// From 0 up to 1, which never comes.
static inline double dice_share(void)
{
	return (double)(dice() >> 11) / 9007199254740992.0;
}
