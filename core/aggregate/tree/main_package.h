// SPDX-License-Identifier: Apache-2.0
// Where none of the code is the user's by its place, the program itself is what they run: the
// package behind -m, behind a script of an environment's bin folder, or around a file that was
// named.
#pragma once

#include "aggregate/tree/view.h"

// By function id: whether it is Python code of that package; free() it. NULL when other code is the
// user's, or there is none.
bool *fm_main_package_find(const struct fm_view *view, const struct fm_symbolizer *symbolizer);
