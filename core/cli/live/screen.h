// SPDX-License-Identifier: Apache-2.0
// What `fathom live` shows: one screen of fathom.live/1.
#pragma once

#include "base/json_read.h"
#include "render/shared/style.h"

// By what functions are in order.
enum fm_live_sort { FM_LIVE_BY_SELF, FM_LIVE_BY_TOTAL, FM_LIVE_BY_WAITS, FM_LIVE_N_SORTS };

struct fm_live_screen {
	const struct fm_style *style; // .out is where it goes
	unsigned rows;                // that fit; 0 = as many as there are
	enum fm_live_sort sort;
	const char *status; // the last line: keys, or what is wrong; NULL = none
};

void fm_live_screen_draw(const struct fm_live_screen *screen, const struct fm_json_value *now);
