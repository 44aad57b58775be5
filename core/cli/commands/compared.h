// SPDX-License-Identifier: Apache-2.0
// The two sides of a comparison, as diff and check are given them on the command line.
#pragma once

#include "aggregate/compare/diff.h"
#include "cli/options/options.h"

struct fm_sides {
	struct fm_runs base, new;
	struct fm_diff diff;
};

// Parses the command line and loads what it names: two captures or results folders, or (with one
// operand) the two latest runs of that name below *output_dir. view and output_dir are targets of
// the options, so they are read afterwards. False: it is over, a line has said why, and *ret_exit
// is the exit code.
bool fm_sides_load(struct fm_sides *ret, const struct fm_usage *usage, int argc, char **argv,
		   const struct fm_view_options *view, const char *const *output_dir, int *ret_exit);
// "BASE" or "NEW" when one of its captures lacks its end; else NULL.
const char *fm_sides_cut(const struct fm_sides *s);
void fm_sides_deinit(struct fm_sides *s);
