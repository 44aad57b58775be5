// SPDX-License-Identifier: Apache-2.0
// ELF objects that a JIT compiler keeps in memory and shows to debuggers (GDB's JIT interface), and
// unwind tables that it registers with the C++ runtime. Read from the process by somebody else;
// untrusted.
#pragma once

#include "base/err.h"
#include "base/str.h"
#include "image/code_ranges.h"
#include "image/lines.h"
#include "image/unwind_rows.h"

// Unwind rows of run-time code: row addresses count from base.
struct fm_jit_rows {
	struct fm_unwind_rows rows;
	uint64_t base, end;
};
void fm_jit_rows_deinit(struct fm_jit_rows *r);

// Adds the object's functions to ranges, and its unwind rows to ret (zeroed). Objects as compilers
// leave them (ET_REL) are relocated in place:
// their section headers say where the sections lie. ranges may be NULL.
FM_MUST_CHECK enum fm_err fm_jit_elf_read(uint8_t *elf, size_t len, uint32_t owner, struct fm_code_ranges *ranges,
					  struct fm_jit_rows *ret);

// The debug information of an object, once fm_jit_elf_read() has relocated it. Takes over elf
// (malloc). NULL: it has none.
struct fm_jit_debug;
struct fm_jit_debug *fm_jit_debug_open(uint8_t *elf, size_t len);
void fm_jit_debug_close(struct fm_jit_debug *d); // NULL is fine
// Lines and inlined calls of addresses of the process, as fm_lines_resolve() tells them.
void fm_jit_debug_resolve(struct fm_jit_debug *d, const uint64_t *addrs, size_t n, fm_lines_fn each, void *ctx);

// Unwind rows of a bare .eh_frame that lies at addr.
void fm_jit_eh_frame_read(const uint8_t *eh_frame, size_t len, uint64_t addr, struct fm_jit_rows *ret);

// How long the table at data is: up to its terminator, or 0 when len bytes do not reach that far.
// *ret_is_bad: no table.
size_t fm_jit_eh_frame_length(const uint8_t *data, size_t len, bool *ret_is_bad);
