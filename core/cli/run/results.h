// SPDX-License-Identifier: Apache-2.0
// What `fathom run` leaves and tells: the results folder, its captures, what the program's Pythons
// wrote there, and the summary at the end.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "aggregate/tree/view.h"
#include "base/err.h"
#include "collect/capture/capture.h"

// command: what the user typed, the first line of profile_results.txt. view: the user's wishes
// (detailed, no_inlines). printed: the format of what is printed, "text" or "markdown"; NULL = nothing.
void fm_results_tell(const char *dir, const char *command, const struct fm_view_options *view, const char *printed,
		     bool is_open);

// The folder that keeps one run: <output dir>/<stem>/<UTC date and time>/.

// Makes a new one, which is its owner's only; ret is its path. The usual output dir is not used
// when somebody else can change it, and tells git to leave it alone.
FM_MUST_CHECK enum fm_err fm_results_folder_make(const char *output_dir, bool is_usual, const char *stem, char *ret,
						 size_t cap, struct fm_diag *diag);
// What speaks against a folder that is there; NULL = nothing. One of somebody else's, or behind their
// link, is where they put it, and files that are written there by name go where they want.
const char *fm_results_folder_distrust(const char *folder);
// The code as it was, beside its results.
void fm_results_folder_copy(const char *dir, const char *script);
// Writes the folder's absolute path to a file.
FM_MUST_CHECK enum fm_err fm_results_folder_tell(const char *dir, const char *path, struct fm_diag *diag);

// A capture, or several of the same command one after the other.

// n_runs 1: options->output_path. More: profile_1.fathom, profile_2.fathom, ... in dir. Stops early
// when the target does not end well, since the rest would fail alike, and when the user interrupts.
FM_MUST_CHECK enum fm_err fm_repeat_run(const struct fm_capture_options *options, unsigned n_runs, const char *dir,
					int *ret_exit_code, struct fm_diag *diag);

// logs.log in the results folder: written by the target's Pythons (python/fathom/_startup), counted
// here.

struct fm_writer;

enum fm_log_level { FM_LOG_DEBUG, FM_LOG_INFO, FM_LOG_WARNING, FM_LOG_ERROR, FM_LOG_CRITICAL, FM_N_LOG_LEVELS };

struct fm_log_counts {
	uint64_t n[FM_N_LOG_LEVELS];
};

// A record begins with its time and level; further lines of it are indented. False when there is no
// such file.
bool fm_logs_count(const char *path, struct fm_log_counts *ret);

// Puts path and counts into the profile: meta logs_path, logs_count_debug, ..._info, ..._warning,
// ..._error, ..._critical. Without a file says in the coverage that nothing was watched, and why.
void fm_logs_tell(struct fm_writer *w, const char *results_dir, const char *why_not);

// cells.tsv in the results folder: the times of a notebook's cells, as _notebook.py writes them
// while they run.

// Puts the rows into the profile (meta notebook_cells). False when there is no file: the notebook
// could not even be read.
bool fm_cells_tell(struct fm_writer *w, const char *results_dir);
