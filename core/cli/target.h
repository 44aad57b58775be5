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
};

// operands: what follows the options, TARGET first. module: the value of -m, or NULL. python: the value of --python, or NULL.
// One line in diag when there is no such thing.
FM_MUST_CHECK enum fm_err fm_target_find(struct fm_target *t, const char *module, const char *python, char **operands,
					 int n_operands, struct fm_diag *diag);
void fm_target_deinit(struct fm_target *t);
