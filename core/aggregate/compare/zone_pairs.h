// SPDX-License-Identifier: Apache-2.0
// How long the zones of each name, and the calls of each function, took in two traces.
//
// They are the same in both when kind, name and the last part of the file are: paths differ between
// machines, and lines between versions. So several of one name in one file are one here.
#pragma once

#include "aggregate/analysis/analysis.h"

struct fm_zone_pair {
	uint8_t kind; // enum fm_trace_kind
	struct fm_str name, file;
	uint32_t line;                // where it begins, in the new capture if it is there; 0 = not known
	struct fm_durations spans[2]; // 0 is the base, 1 the new capture
};

struct fm_zone_pairs {
	struct fm_trace_stats *stats[2]; // lend the names; NULL: no trace
	FM_VEC(struct fm_zone_pair) items;
};

// Reads both traces once more; a zeroed struct before. One line in diag on failure. To be deinit()ed
// in any case, and before the captures are closed.
FM_MUST_CHECK enum fm_err fm_zone_pairs_build(struct fm_zone_pairs *p, const struct fm_analysis *base,
					      const struct fm_analysis *a, struct fm_diag *diag);
void fm_zone_pairs_deinit(struct fm_zone_pairs *p);
