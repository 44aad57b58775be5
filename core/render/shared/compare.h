// SPDX-License-Identifier: Apache-2.0
// What several runs say together: means over repeated runs, changes between two sets, and the
// history of a script.
#pragma once

#include <stdio.h>

#include "aggregate/compare/diff.h"

// Adds a capture to a set of runs, with its totals as every report has them.
void fm_compare_add(struct fm_runs *runs, struct fm_analysis *a);

// "Over 5 Runs": totals, the top functions and lines, each with mean, spread and interval.
void fm_compare_repeat(FILE *out, const struct fm_runs *runs, const struct fm_view_options *options);

// False when both are known and differ.
bool fm_compare_same_command(const struct fm_runs *base, const struct fm_runs *new);
void fm_compare_diff_text(FILE *out, const struct fm_diff *d, const struct fm_runs *base, const struct fm_runs *new,
			  const struct fm_view_options *options);
// Schema fathom.diff/1.
void fm_compare_diff_json(FILE *out, const struct fm_diff *d, const struct fm_runs *base, const struct fm_runs *new);
