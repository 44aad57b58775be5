// Where the agent lies that belongs to this program.
//
// FATHOM_AGENT_PATH names it outright. Otherwise it is looked for from the program's own place on disk:
//   build/fathom          _agent.abi3.so beside it
//   fathom/_bin/fathom    ../_agent.abi3.so               (inside the Python package: a wheel)
//   bin/fathom            ../lib/fathom/_agent.abi3.so    (make install)
#pragma once

#include <stddef.h>

#include "base/err.h"

#define FM_AGENT_FILE "_agent.abi3.so"

// Writes the absolute path, free of symbolic links, to ret. FM_E_NOT_FOUND with the places looked at in diag.
FM_MUST_CHECK enum fm_err fm_agent_path_find(char *ret, size_t cap, struct fm_diag *diag);

// The same for a program that lies in program_dir, without the variable.
FM_MUST_CHECK enum fm_err fm_agent_path_find_from(const char *program_dir, char *ret, size_t cap, struct fm_diag *diag);
