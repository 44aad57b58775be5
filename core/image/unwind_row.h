// SPDX-License-Identifier: Apache-2.0
// One flat unwind row: from addr on, up to the next row's, callers are found so. A plain struct:
// the collector makes rows from files that have no index of their own (unwind_rows.h) and publishes
// them in shared memory, the agent searches them.
#pragma once

#include <assert.h>
#include <stdint.h>

enum fm_unwind_row_kind {
	FM_UNWIND_GAP = 0,   // not described: what lies between functions
	FM_UNWIND_REG = 1,   // CFA = register + cfa_off
	FM_UNWIND_DEREF = 2, // CFA = *(rbp + cfa_off)
	FM_UNWIND_END = 3,   // outermost frame
};

enum fm_unwind_flags {
	FM_UNWIND_LOST_RBP = 1, // saved in a way that a row cannot tell
	FM_UNWIND_LOST_RBX = 2,
	FM_UNWIND_GUESSED = 4, // from the code itself (x86_prologue.h): what it finds must look like a return address
};

// rbp_off of rows whose rbp is saved where rbp itself points: realigned stacks.
#define FM_UNWIND_AT_RBP INT16_MAX

struct fm_unwind_row {
	uint32_t addr; // ELF virtual address; larger ones are not described
	int32_t cfa_off;
	int16_t rbp_off; // 0: unchanged; else saved at CFA + rbp_off
	int16_t rbx_off;
	uint8_t cfa_reg; // DWARF number
	uint8_t kind;    // enum fm_unwind_row_kind
	uint8_t flags;   // enum fm_unwind_flags
	uint8_t reserved;
};
static_assert(sizeof(struct fm_unwind_row) == 16, "rows are shared between processes");
