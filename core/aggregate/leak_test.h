// Is what a place allocates ever given back? A judgement over births and deaths of its blocks; docs/memory-math.md has the
// reasons. Pure arithmetic.
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct fm_leak_block {
	double born_s, freed_s; // INFINITY = not freed
	double weight, size;    // bytes
	double n;               // how many blocks it stands for in the question how many were freed
};

struct fm_leak_verdict {
	double likelihood;                    // posterior mean of "a block of this place is never freed"
	double velocity, velocity_plus_minus; // bytes/s
	double bytes;                         // live at the end and old enough to count
	double min_age_s;                     // how old a block must be to count as a survivor
};

// Runs shorter than this tell nothing.
#define FM_LEAK_MIN_RUN_S 5.0
// Slower growth is not worth a line: half a MiB a minute.
#define FM_LEAK_MIN_VELOCITY (524288.0 / 60)

// blocks were born between begin_s and end_s; frees after end_s count as none. False: the data do not bear the claim.
bool fm_leak_test(const struct fm_leak_block *blocks, size_t n, double begin_s, double end_s,
		  struct fm_leak_verdict *ret);
