// The folder that keeps one run: <output dir>/<stem>/<UTC date and time>/.
#pragma once

#include <stddef.h>

#include "base/err.h"

#define FM_OUTPUT_DIR ".fathom" // unless another one is named

// Makes a new one, which is its owner's only; ret is its path. The usual output dir is not used when somebody else can change it.
FM_MUST_CHECK enum fm_err fm_results_folder_make(const char *output_dir, const char *stem, char *ret, size_t cap,
						 struct fm_diag *diag);
// The code as it was, beside its results.
void fm_results_folder_copy(const char *dir, const char *script);
// Writes the folder's absolute path to a file.
FM_MUST_CHECK enum fm_err fm_results_folder_tell(const char *dir, const char *path, struct fm_diag *diag);
