// SPDX-License-Identifier: Apache-2.0
// What `fathom run` starts: from what the user names to the command that is run (a script, a module,
// or any program), and what its Pythons do before the program.
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/mem.h"

struct fm_target {
	FM_VEC(char *) argv; // NULL-terminated command; the strings are the target's
	char stem[256];      // names the results folder
	const char *script;  // the script's path, NULL for a module or a program
	char *python;        // the interpreter that runs it, NULL for a program
	bool is_notebook;    // script is an .ipynb; argv runs it by way of _notebook.py
	char *found;         // the path that a bare name was found at, NULL when a path was given
};

// operands: what follows the options, TARGET first: a path, or a file name that is unique in the
// project. module: the value of -m, or NULL. python: the value of --python, or NULL. output_dir:
// where results go, which is not searched. One line in diag when there is no such thing, or more
// than one.
FM_MUST_CHECK enum fm_err fm_target_find(struct fm_target *t, const char *module, const char *python,
					 const char *output_dir, char **operands, int n_operands, struct fm_diag *diag);
void fm_target_deinit(struct fm_target *t);

// The first line of a script: which Python it wants.

struct fm_shebang {
	char python[1024]; // a path, or a name to be looked for on PATH; "" = whichever there is
	char option[256];  // "-u"; "" = none
};

// False: no such line, or none that names a Python.
bool fm_shebang_read(const char *script, struct fm_shebang *ret);

// What a Python that is run by `fathom run` does before the program (python/fathom/_startup): keep
// logs.log, open no windows, trace its calls.
//
// It travels by variables: PYTHONPATH with the hook's folder in front, FATHOM_STARTUP with the
// wishes, and FATHOM_STARTUP_TRACE with the agent's path when calls are to be traced. The hook
// takes them back before the program sees them. In a Python that ignores its environment (-I, -E)
// or skips site (-S) the agent runs the hook (core/agent/isolated.c).

struct fm_startup_options {
	const char *results_dir;
	const char *log_level; // DEBUG, INFO, WARNING, ERROR or CRITICAL; NULL = no logs.log
	bool no_plots, children;
	bool is_notebook; // tells _notebook.py where to leave its cells
	bool trace;       // every call
};

struct fm_startup {
	char *env[5]; // "NAME=value", NULL-terminated: for fm_capture_options.env
};

// When the hook cannot be used diag says why, env is empty, and the program can run without it.
FM_MUST_CHECK enum fm_err fm_startup_init(struct fm_startup *s, const struct fm_startup_options *options,
					  struct fm_diag *diag);
void fm_startup_deinit(struct fm_startup *s);

// --trace: a program whose Pythons record every call. The start-up file that they run
// tells the agent to; how that went each of them notes in a folder
// (python/fathom/_startup/_fathom_trace.py).

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
