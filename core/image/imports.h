// SPDX-License-Identifier: Apache-2.0
// What an ELF file asks of others by name.
#pragma once

#include <stdbool.h>

#include "base/err.h"

// *ret: whether its dynamic symbols hold one of these names (the last one NULL) that it does not
// define itself.
FM_MUST_CHECK enum fm_err fm_imports_any(const char *path, const char *const *names, bool *ret);
