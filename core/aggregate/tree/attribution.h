// SPDX-License-Identifier: Apache-2.0
// Who pays: the Python line that stands for what happens in a place of the tree. Time and memory
// are charged by one rule.
#pragma once

#include "aggregate/tree/view.h"

struct fm_attribution {
	uint32_t own;  // node + 1 of the innermost Python frame; 0 = none
	uint32_t user; // the same, of the user's own code
};

// By node; free() it.
struct fm_attribution *fm_attribution_find(const struct fm_profile *profile, const struct fm_tally *tally,
					   const struct fm_view *view, const struct fm_symbolizer *symbolizer);

// Node + 1 of the line that is charged, 0 = none: libraries are charged to the user's line that
// called them, unless asked for in detail.
static inline uint32_t fm_attribution_line(const struct fm_attribution *payer, bool is_detailed)
{
	return !is_detailed && payer->user ? payer->user : payer->own;
}
