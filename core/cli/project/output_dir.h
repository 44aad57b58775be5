// SPDX-License-Identifier: Apache-2.0
// Where results go unless a folder is named.
#pragma once

#include <stddef.h>

#define FM_OUTPUT_DIR ".fathom"

// One folder for the whole project: .fathom beside its .git or pyproject.toml, however deep below
// that commands are given; that of the current folder where there is no project, or one that others
// can change. Relative to the current folder, as short as can be. ret is returned.
const char *fm_output_dir_usual(char *ret, size_t cap);
