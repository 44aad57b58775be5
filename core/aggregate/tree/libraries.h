// SPDX-License-Identifier: Apache-2.0
// How well each native library could be named: of the samples that went through it, in which share
// the innermost frame there has a function name, and in which a source line.
#pragma once

#include "aggregate/tree/summary.h"

// Below this share of the samples a library is not worth a line.
#define FM_LIBRARY_MIN_SHARE 0.005

struct fm_library_row {
	struct fm_str path;
	double share;         // of all CPU time: samples with a frame of it in the shown stack
	double named_share;   // of these: its innermost frame has a function name
	double lines_share;   // of these: its innermost frame has a source line
	struct fm_str remedy; // "" when less than a tenth is missing
};

struct fm_libraries {
	FM_VEC(struct fm_library_row) rows; // most time first
	struct fm_arena arena;
};

void fm_libraries_build(struct fm_libraries *l, const struct fm_tally *tally, const struct fm_view *view,
			const struct fm_symbolizer *symbolizer);
void fm_libraries_deinit(struct fm_libraries *l);
