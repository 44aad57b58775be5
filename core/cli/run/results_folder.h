// SPDX-License-Identifier: Apache-2.0
// The folder that keeps one run: <output dir>/<stem>/<UTC date and time>/.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

// Makes a new one, which is its owner's only; ret is its path. The usual output dir is not used
// when somebody else can change it, and tells git to leave it alone.
FM_MUST_CHECK enum fm_err fm_results_folder_make(const char *output_dir, bool is_usual, const char *stem, char *ret,
						 size_t cap, struct fm_diag *diag);
// The code as it was, beside its results.
void fm_results_folder_copy(const char *dir, const char *script);
// Writes the folder's absolute path to a file.
FM_MUST_CHECK enum fm_err fm_results_folder_tell(const char *dir, const char *path, struct fm_diag *diag);
