// SPDX-License-Identifier: Apache-2.0
// Two programs that were measured in pairs: how much the second differs, in parts of the first, and
// how sure that is. Pure. docs/sampling-math.md has the mathematics ("Runs in pairs").
#pragma once

#include <stdbool.h>

#include "base/mem.h"

// Five pairs can fall all to one side by chance once in 16 times: fewer than six cannot be 95 % sure
// of anything.
#define FM_PAIRED_LEAST 6u
#define FM_PAIRED_MOST 200u

struct fm_paired {
	unsigned n;          // pairs
	double base, head;   // the median of each
	double change;       // 0.1: the head takes 10 % more, by the Hodges-Lehmann estimate
	double low, high;    // of the change, with 95 % certainty
	double p;            // the chance that equal programs differ so much, whichever way
	bool is_significant; // the interval leaves no change out
};

// False: there are too few pairs or too many, or a figure that is not above 0, so that there is no
// share to tell.
bool fm_paired_compare(const double *base, const double *head, unsigned n, struct fm_paired *ret);

// The largest sum of ranks that is met by chance with at most alpha / 2, or -1 where none is.
int fm_paired_critical(unsigned n, double alpha);
