// SPDX-License-Identifier: Apache-2.0
// The user's project, and where files of ours go: the folder with .git or pyproject.toml at or above
// the current one, files found in it by name, the folder for results, names of output files.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mem.h"

// False when there is none (ret is the current folder then), and when ret is one that others can
// change, so that it is not believed: *ret_why_not, otherwise NULL, says why ("belongs to another
// user").
bool fm_project_root(char *ret, size_t cap, const char **ret_why_not);

struct fm_project_hits {
	FM_VEC(char *) paths; // relative to the current folder where they are below it; sorted
};

// Every file below root whose path ends in `name` ("job.py", "work/job.py"). Not looked into:
// version control, caches, virtual environments, node_modules, the folder where results go
// (output_dir), links to folders.
void fm_project_find(struct fm_project_hits *h, const char *root, const char *name, const char *output_dir);
void fm_project_hits_deinit(struct fm_project_hits *h);

// Where results go unless a folder is named.
#define FM_OUTPUT_DIR ".fathom"

// One folder for the whole project: .fathom beside its .git or pyproject.toml, however deep below
// that commands are given; that of the current folder where there is no project, or one that others
// can change. Relative to the current folder, as short as can be. ret is returned.
const char *fm_output_dir_usual(char *ret, size_t cap);

// Names of output files that become another one for each run.

// %p: the process id; %t: the time, UTC, as yyyymmdd_HHMMSS; %r: the rank that mpirun or srun gave
// to this process; %%: a percent sign. FM_E_USAGE: another letter, no rank, or too long.
FM_MUST_CHECK enum fm_err fm_output_name_expand(const char *name, uint32_t pid, char *ret, size_t cap,
						struct fm_diag *diag);

// A folder of our own that is gone at the end.

// Makes an empty folder in TMPDIR, which only its owner may read; ret is its path. A file:
// base/owner.h.
FM_MUST_CHECK enum fm_err fm_temporary_folder(char *ret, size_t cap, struct fm_diag *diag);
