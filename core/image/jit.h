// SPDX-License-Identifier: Apache-2.0
// What JIT compilers tell of their code: ELF objects in memory, jitdump, and perf's map. All of it
// is written by the program while it runs; untrusted.
#pragma once

#include "base/err.h"
#include "base/str.h"
#include "image/code_ranges.h"
#include "image/lines.h"
#include "image/unwind_rows.h"

// ELF objects that a JIT compiler keeps in memory and shows to debuggers (GDB's JIT interface), and
// unwind tables that it registers with the C++ runtime. Read from the process by somebody else;
// untrusted.

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

// jitdump: the file in which a JIT compiler tells of its code, with lines and unwind information
// (tools/perf/Documentation/ jitdump-specification.txt of Linux). Written by the program while it
// runs; untrusted.
#define FM_JITDUMP_MAGIC 0x4a695444u

// Where a reader stands in the file. Zeroed: at the beginning.
struct fm_jitdump {
	bool has_header;
	bool is_closed; // the compiler has said that nothing follows
	// DEBUG_INFO and UNWINDING_INFO come before the CODE_LOAD they belong to.
	struct fm_buf debug_info; // entries as in the file
	uint64_t n_debug_entries, debug_addr;
	struct fm_buf unwinding;
	uint64_t eh_frame_hdr_size;
	uint32_t n_bad_records;
};
void fm_jitdump_deinit(struct fm_jitdump *d);

// Unwind information of a piece of code: .eh_frame as it would stand at addr.
typedef void (*fm_jitdump_unwind_fn)(void *ctx, uint64_t start, uint64_t size, const uint8_t *eh_frame, size_t len,
				     uint64_t addr);

// Takes whole records; *ret_used is how many bytes these were, more may follow. FM_E_BAD_MAGIC: no
// jitdump, or of another byte order or version; FM_E_CORRUPT: a record cannot be what it says, and
// nothing behind it can be found. unwind may be NULL.
FM_MUST_CHECK enum fm_err fm_jitdump_parse(struct fm_jitdump *d, const uint8_t *data, size_t len, uint32_t owner,
					   struct fm_code_ranges *ranges, fm_jitdump_unwind_fn unwind, void *ctx,
					   size_t *ret_used);

// /tmp/perf-PID.map: one line for each piece of code, "start size name" in hexadecimal, the name
// with any blanks in it. Written by the program while it runs; untrusted.

// Takes the whole lines out of len bytes; returns how many bytes these were: the rest is the
// beginning of a line that is being written. Lines that are none are passed over and counted.
size_t fm_perf_map_parse(const char *text, size_t len, uint32_t owner, struct fm_code_ranges *ret,
			 uint32_t *n_bad_lines);
