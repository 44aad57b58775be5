// SPDX-License-Identifier: Apache-2.0
// Where the agent lies that belongs to this program, and what else the Python package brings for
// the target.
//
// FATHOM_AGENT_PATH names it outright. Otherwise it is looked for from the program's own place on
// disk:
//   build/fathom          _agent.abi3.so beside it
//   fathom/_bin/fathom    ../_agent.abi3.so               (inside the Python package: a wheel)
//   bin/fathom            ../lib/fathom/_agent.abi3.so    (make install)
#pragma once

#include <stddef.h>

#include "base/err.h"

#define FM_AGENT_FILE "_agent.abi3.so"

// Writes the absolute path, free of symbolic links, to ret. FM_E_NOT_FOUND with the places looked
// at in diag.
FM_MUST_CHECK enum fm_err fm_agent_path_find(char *ret, size_t cap, struct fm_diag *diag);

// The same for a program that lies in program_dir, without the variable.
FM_MUST_CHECK enum fm_err fm_agent_path_find_from(const char *program_dir, char *ret, size_t cap, struct fm_diag *diag);

// A file or folder of the Python package that the target runs ("_startup", "_notebook.py"): in a
// checkout ../python/fathom, in a wheel .., installed by make ../lib/fathom.
FM_MUST_CHECK enum fm_err fm_package_path_find(const char *name, char *ret, size_t cap, struct fm_diag *diag);
