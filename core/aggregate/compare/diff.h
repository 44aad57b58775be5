// SPDX-License-Identifier: Apache-2.0
// What changed between two sets of runs, each change with its interval and whether chance explains
// it.
#pragma once

#include "aggregate/compare/runs.h"

struct fm_change {
	struct fm_mean base, new;
	double delta, plus_minus; // new - base, and half its 95 % interval
	double p;                 // the chance that a difference this large comes about without a change
	bool is_significant;      // p is small even though this many comparisons were made
};

struct fm_diff_row {
	const struct fm_run_row *row; // of the new runs, or of the old where it is gone; borrowed
	bool is_in_base, is_in_new;
	struct fm_change change;
};

struct fm_diff {
	struct fm_change wall_s, cpu_s, max_rss_bytes;
	FM_VEC(struct fm_diff_row) functions, lines; // seconds; largest change first
	FM_VEC(struct fm_diff_row)
	memory_functions, memory_lines; // bytes, each one's own peak; empty unless all runs captured memory
	bool is_sampling_only;          // a side has one run: how much runs differ is not known
};

// Rows below this share of the CPU time on both sides are left out: they are noise, and cost
// certainty for the others.
#define FM_DIFF_MIN_SHARE 0.002
#define FM_DIFF_MIN_MEMORY_SHARE 0.01 // of the resident memory

// Borrows from both sets, which have to live as long. Unless is_all, only the user's own code is
// compared.
void fm_diff_build(struct fm_diff *d, const struct fm_runs *base, const struct fm_runs *new, bool is_all);
void fm_diff_deinit(struct fm_diff *d);
