// SPDX-License-Identifier: Apache-2.0
// Unwind rows of one ELF file, for code that the mapped image does not describe in a way that can
// be searched at signal time:
// functions with an entry in .debug_frame but none in .eh_frame, an .eh_frame without
// .eh_frame_hdr, and functions with no entry at all, whose rows are read off their code
// (x86_prologue.c). Files are untrusted; a damaged one gives fewer rows, never a crash.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mem.h"
#include "image/unwind_row.h"

struct fm_unwind_rows {
	struct fm_unwind_row *items; // an FM_VEC with a name: deinit with fm_vec_deinit
	size_t n, cap;
};

// Appends rows sorted by address, each described range ended by a GAP row. None when the image
// needs none. FM_E_NOT_FOUND: no such file; FM_E_CORRUPT: no ELF file.
FM_MUST_CHECK enum fm_err fm_unwind_rows_read(const char *path, struct fm_unwind_rows *ret, struct fm_diag *diag);

// Unwind rows from the first instructions of a function, for code that describes itself nowhere:
// hand-written assembly, such as OpenBLAS's kernels, in which numerical programs spend most of
// their time. x86-64 only.

// Appends rows for the function's code (len bytes, at ELF address addr), and a GAP row at its end.
// All are marked FM_UNWIND_GUESSED: where the body moves the stack pointer in ways that its
// beginning and end do not show, they are wrong.
void fm_x86_prologue_rows(const uint8_t *code, size_t len, uint32_t addr, struct fm_unwind_rows *ret);
