// SPDX-License-Identifier: Apache-2.0
// --trace: a program whose Pythons record every call. The start-up file that they run (startup.h)
// tells the agent to; how that went each of them notes in a folder
// (python/fathom/_startup/_fathom_trace.py).
#pragma once

#include "base/err.h"
#include "cli/run/startup.h"

struct fm_writer;
struct fm_capture_options;

// Says in the coverage whose calls are missing and why, and takes the notes away. why_none: for
// when no Python left a note.
void fm_traced_tell(struct fm_writer *w, const char *notes_dir, const char *why_none);

// For a capture that has no results folder: one of its own for the notes, while it runs.
struct fm_traced {
	char dir[256]; // "" = none
	struct fm_startup startup;
	struct fm_diag no_startup; // why the start-up file cannot be used
	bool has_startup;
};

// Adds to env and at_end. One line in diag when there is no place for the folder.
FM_MUST_CHECK enum fm_err fm_traced_begin(struct fm_traced *t, struct fm_capture_options *capture,
					  struct fm_diag *diag);
void fm_traced_end(struct fm_traced *t); // a zeroed one is fine
