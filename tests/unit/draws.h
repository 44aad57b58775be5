// SPDX-License-Identifier: Apache-2.0
// Random draws for simulations, the same ones in every run.
#pragma once

#include <math.h>
#include <stdint.h>

static uint64_t draws_state = 7;

static inline double uniform(void)
{
	draws_state = draws_state * 6364136223846793005u + 1442695040888963407u;
	return ((double)(draws_state >> 11) + 0.5) / 9007199254740992.0;
}

static inline double normal(void)
{
	return sqrt(-2 * log(uniform())) * cos(2 * M_PI * uniform());
}
