// SPDX-License-Identifier: Apache-2.0
// Files that become shorter while they are mapped. A program may truncate its own library while we
// read it: the kernel answers a read of what is gone with SIGBUS, and that must not end us. Within
// a guard such a page reads as zeros, as a damaged file might have them.
#pragma once

#include "base/compiler.h"

int fm_file_guard_enter(void);
void fm_file_guard_leave(int *unused);

// At the beginning of a function that reads mapped files: until it returns. May be nested.
#define FM_GUARD_FILES int fm_guard_ __attribute__((cleanup(fm_file_guard_leave), unused)) = fm_file_guard_enter()
