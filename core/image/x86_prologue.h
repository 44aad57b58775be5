// SPDX-License-Identifier: Apache-2.0
// Unwind rows from the first instructions of a function, for code that describes itself nowhere:
// hand-written assembly, such as OpenBLAS's kernels, in which numerical programs spend most of
// their time. x86-64 only.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "image/unwind_rows.h"

// Appends rows for the function's code (len bytes, at ELF address addr), and a GAP row at its end.
// All are marked FM_UNWIND_GUESSED: where the body moves the stack pointer in ways that its
// beginning and end do not show, they are wrong.
void fm_x86_prologue_rows(const uint8_t *code, size_t len, uint32_t addr, struct fm_unwind_rows *ret);
