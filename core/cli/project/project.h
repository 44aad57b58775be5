// SPDX-License-Identifier: Apache-2.0
// The user's project: the folder with .git or pyproject.toml at or above the current one, and files
// found in it by name.
#pragma once

#include <stdbool.h>
#include <stddef.h>

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
