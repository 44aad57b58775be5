// SPDX-License-Identifier: Apache-2.0
// A file of our own that is gone at the end.
#pragma once

#include <stddef.h>

#include "base/err.h"

// Makes an empty one in TMPDIR, which only its owner may read; ret is its path.
FM_MUST_CHECK enum fm_err fm_temporary_make(char *ret, size_t cap, struct fm_diag *diag);
