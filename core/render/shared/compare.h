// SPDX-License-Identifier: Apache-2.0
// What several runs say together: means over repeated runs, changes between two sets, and the
// history of a script.
#pragma once

#include <stdio.h>

#include "aggregate/compare/diff.h"
#include "base/json.h"

// Adds a capture to a set of runs, with its totals as every report has them.
void fm_compare_add(struct fm_runs *runs, struct fm_analysis *a);

// "Over 5 Runs": totals, the top functions and lines, each with mean, spread and interval.
void fm_compare_repeat(FILE *out, const struct fm_runs *runs, const struct fm_view_options *options);

// False when both are known and differ.
bool fm_compare_same_command(const struct fm_runs *base, const struct fm_runs *new);
void fm_compare_diff_text(FILE *out, const struct fm_diff *d, const struct fm_runs *base, const struct fm_runs *new,
			  const struct fm_view_options *options);
// In 8 KB at most.
void fm_compare_diff_markdown(FILE *out, const struct fm_diff *d, const struct fm_runs *base,
			      const struct fm_runs *new);
// Its tables of functions and lines, and what their marks mean. more: what the closing sentence says
// besides, from a blank on.
void fm_compare_rows_text(FILE *out, const struct fm_diff *d, const char *more, const struct fm_view_options *options);
// Lends the line that grew most, or the function: one place to begin. NULL: chance explains them all.
const struct fm_diff_row *fm_compare_worst(const struct fm_diff *d);
// "work (app.py:12), +0.330 s"
void fm_compare_name_row(struct fm_buf *b, const struct fm_diff_row *row);
// "; most in work (app.py:12), +0.330 s", or nothing.
void fm_compare_name_worst(struct fm_buf *b, const struct fm_diff *d);
// Schema fathom.diff/1.
void fm_compare_diff_json(FILE *out, const struct fm_diff *d, const struct fm_runs *base, const struct fm_runs *new);
// Its four lists, as members of the object that is open.
void fm_compare_rows_json(struct fm_json *j, const struct fm_diff *d);
