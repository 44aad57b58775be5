// SPDX-License-Identifier: Apache-2.0
// Inside this room only: the part of jit_elf.h that unwind_rows.c does.
#pragma once

#include <libelf.h>

#include "image/unwind_rows.h"

// The rows of everything that .eh_frame and .debug_frame describe, counted from *ret_base; *ret_end
// is where the last one ends.
void fm_unwind_rows_of_elf(Elf *elf, struct fm_unwind_rows *ret, uint64_t *ret_base, uint64_t *ret_end);
