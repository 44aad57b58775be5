// SPDX-License-Identifier: Apache-2.0
// Looking things up that are in order.
#pragma once

#include <stddef.h>

// How many of n things come first of which `is_before`, an expression in `i`, is true: it is false of
// all that follow.
#define fm_bisect(n, i, is_before)                            \
	({                                                    \
		size_t low_ = 0, high_ = (n);                 \
		while (low_ < high_) {                        \
			size_t i = low_ + (high_ - low_) / 2; \
			if (is_before)                        \
				low_ = i + 1;                 \
			else                                  \
				high_ = i;                    \
		}                                             \
		low_;                                         \
	})
