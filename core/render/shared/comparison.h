// SPDX-License-Identifier: Apache-2.0
// What `fathom compare` found: two sides run in pairs, the figures with their intervals, what of them
// is beyond its limit, and the functions and lines that made the difference.
#pragma once

#include <stdio.h>

#include "aggregate/compare/diff.h"
#include "aggregate/compare/paired.h"
#include "base/str.h"

enum fm_compared {
	FM_COMPARED_CPU, // by the kernel's account of the command and what it waited for
	FM_COMPARED_WALL,
	FM_COMPARED_RAM,          // at its peak
	FM_COMPARED_INSTRUCTIONS, // in user space
	FM_N_COMPARED,
};

// What is known of each of them.
struct fm_compared_kind {
	const char *key;  // in JSON: "cpu_s"
	const char *name; // "CPU time"
	const char *unit; // it is shown in
	double scale;     // to that unit
};
extern const struct fm_compared_kind fm_compared_kinds[FM_N_COMPARED];

struct fm_comparison {
	const char *base_name, *head_name; // what they are, in words
	const struct fm_runs *base, *head;
	const struct fm_diff *diff;
	const bool *is_head_first;   // by pair
	const char *no_instructions; // why they were not counted; "" = they were
	const char *doubt;           // what speaks against the result, in a sentence; "" = nothing
	const char *root;            // of the repository: files are told relative to it
	struct fm_compared_figure {
		bool is_known;
		struct fm_paired paired;
		double limit;   // as a share; below 0 = none
		bool is_beyond; // it grew by more, and chance does not explain that it grew
	} figures[FM_N_COMPARED];
};

// The figure of one run.
double fm_compared_value(const struct fm_run_totals *run, enum fm_compared which);

// Fills the figures of those sides; limits must be there.
void fm_comparison_judge(struct fm_comparison *c);
bool fm_comparison_is_beyond(const struct fm_comparison *c);
// One line, without its end: what is beyond its limit and where most of it is, or that nothing is.
void fm_comparison_verdict(struct fm_buf *b, const struct fm_comparison *c);
// "+27.4%"
void fm_comparison_percent(struct fm_buf *b, double share);

// The path of a row's file below c->root, or "" when it is elsewhere.
struct fm_str fm_comparison_path(const struct fm_comparison *c, const struct fm_run_row *row);

void fm_comparison_text(FILE *out, const struct fm_comparison *c, const struct fm_view_options *options);
// Schema fathom.compare/1.
void fm_comparison_json(FILE *out, const struct fm_comparison *c);
// At most FM_COMPARISON_MARKDOWN bytes.
#define FM_COMPARISON_MARKDOWN 8000u
void fm_comparison_markdown(FILE *out, const struct fm_comparison *c);
// A test for each figure that has a limit.
void fm_comparison_junit(FILE *out, const struct fm_comparison *c);
// Lines that GitHub shows beside the source: errors where something is beyond its limit, else one notice.
void fm_comparison_github(FILE *out, const struct fm_comparison *c);
