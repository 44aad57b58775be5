// SPDX-License-Identifier: Apache-2.0
// From what the user names to capture files: a file, a results folder (with one capture or several
// repeated ones), or the name of a script that was profiled before.
#pragma once

#include "base/err.h"
#include "base/mem.h"

struct fm_captures {
	FM_VEC(char *) paths;
};

// A file is itself. A folder gives its profile.fathom, or its profile_1.fathom, profile_2.fathom,
// ...
FM_MUST_CHECK enum fm_err fm_captures_find(struct fm_captures *c, const char *path, struct fm_diag *diag);
// The same where one is shown: several are added up into one (join.h). *ret is the caller's to
// free.
FM_MUST_CHECK enum fm_err fm_captures_find_one(const char *path, char **ret, struct fm_diag *diag);
// The results folders of a script, oldest first: output_dir/name/<date>/ that hold a capture. name
// may end in .py.
FM_MUST_CHECK enum fm_err fm_captures_dated(struct fm_captures *c, const char *output_dir, const char *name,
					    struct fm_diag *diag);
void fm_captures_deinit(struct fm_captures *c);
