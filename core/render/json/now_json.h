// SPDX-License-Identifier: Apache-2.0
// What a running program does now, for machines: schema fathom.live/1 (docs/live.md).
#pragma once

#include <stdio.h>

#include "aggregate/live/now.h"

struct fm_now_facts {
	bool has_ended;
	uint64_t file_bytes; // of the capture so far
	uint64_t cost_ns;    // CPU time that looking has taken so far
};

// One line. now may be NULL: the capture has not begun.
void fm_now_json(FILE *out, const struct fm_now *now, const struct fm_recent *r, const struct fm_profile *p,
		 const struct fm_now_facts *facts);
