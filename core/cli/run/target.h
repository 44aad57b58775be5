// SPDX-License-Identifier: Apache-2.0
// From what the user names to the command that is run: a script, a module, or any program.
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
