// SPDX-License-Identifier: Apache-2.0
// What a user can do about a library whose functions or lines are unknown: one line.
#pragma once

#include <stdbool.h>

#include "base/mem.h"
#include "base/str.h"

// Looks at the path, and asks the package manager whose it is where that helps (dpkg, at most a
// second in all).
struct fm_str fm_remedy(struct fm_arena *arena, struct fm_str library_path);
