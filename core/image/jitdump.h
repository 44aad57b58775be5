// SPDX-License-Identifier: Apache-2.0
// jitdump: the file in which a JIT compiler tells of its code, with lines and unwind information
// (tools/perf/Documentation/ jitdump-specification.txt of Linux). Written by the program while it
// runs; untrusted.
#pragma once

#include "base/err.h"
#include "base/str.h"
#include "image/code_ranges.h"

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
