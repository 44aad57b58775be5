// SPDX-License-Identifier: Apache-2.0
// What a Python that is run by `fathom run` does before the program (python/fathom/_startup): keep
// logs.log, open no windows, trace its calls.
//
// It travels by variables: PYTHONPATH with the hook's folder in front, FATHOM_STARTUP with the
// wishes, and FATHOM_STARTUP_TRACE with the agent's path when calls are to be traced. The hook
// takes them back before the program sees them. In a Python that ignores its environment (-I, -E)
// or skips site (-S) the agent runs the hook (core/agent/isolated.c).
#pragma once

#include <stdbool.h>

#include "base/err.h"

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
