// SPDX-License-Identifier: Apache-2.0
// From what the user names to capture files: a file, a results folder (with one capture or several
// repeated ones), or the name of a script that was profiled before.
#pragma once

#include <stdio.h>

#include "aggregate/compare/runs.h"
#include "aggregate/tree/view.h"
#include "base/err.h"
#include "base/mem.h"

struct fm_captures {
	FM_VEC(char *) paths;
};

// A file is itself, one of another tool's a capture made of it (below). A folder gives its profile.fathom, or its
// profile_1.fathom, profile_2.fathom,
// ..., or its only capture, whatever that is called.
FM_MUST_CHECK enum fm_err fm_captures_find(struct fm_captures *c, const char *path, struct fm_diag *diag);
// The same where one is shown: several are added up into one. *ret is the caller's to
// free.
FM_MUST_CHECK enum fm_err fm_captures_find_one(const char *path, char **ret, struct fm_diag *diag);
// The results folders of a script, oldest first: output_dir/name/<date>/ that hold a capture. name
// may end in .py.
FM_MUST_CHECK enum fm_err fm_captures_dated(struct fm_captures *c, const char *output_dir, const char *name,
					    struct fm_diag *diag);
void fm_captures_deinit(struct fm_captures *c);

// A file that another tool wrote becomes a capture that goes when this process ends; any other file
// stays itself. *ret is the caller's to free. Where the file is damaged, what came before is shown,
// which a line says.
FM_MUST_CHECK enum fm_err fm_foreign_capture(const char *path, char **ret, struct fm_diag *diag);
// A new empty file of ours that goes when this process ends; NULL = none can be made. Lent.
const char *fm_passing_file(void);
// What to call a capture in what is shown: NULL = by its own path, or as the user named it when that
// path is a file that goes.
const char *fm_capture_called(const char *capture, const char *named);

// fathom report --history NAME: the dated runs of a script with their totals.

FM_MUST_CHECK enum fm_err fm_history_print(const char *output_dir, const char *name, struct fm_diag *diag);

// Several captures of one command as one: for what shows a single capture (report, view, export) to
// show all repeated runs.

// The runs of a results folder added up into one capture, one after the other in time, with a note
// on how much they differ. It is kept as runs.fathom beside them, where that can be written, and
// made anew when one of them is newer; else it is there until this process ends. *ret is its path,
// the caller's to free. With one capture, that capture's own.
FM_MUST_CHECK enum fm_err fm_join_runs(const struct fm_captures *captures, char **ret, struct fm_diag *diag);

// Captures read and added up, for what compares runs: --repeat, diff, check.

// Reads every capture once, and adds it to *ret, which is empty (zeroed) before. One line in diag on failure.
FM_MUST_CHECK enum fm_err fm_load_runs(struct fm_runs *ret, const struct fm_captures *captures,
				       const struct fm_view_options *options, struct fm_diag *diag);
// Prints the means over repeated captures.
FM_MUST_CHECK enum fm_err fm_report_runs(FILE *out, const struct fm_captures *captures,
					 const struct fm_view_options *options, struct fm_diag *diag);
