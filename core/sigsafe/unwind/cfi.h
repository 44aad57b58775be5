// SPDX-License-Identifier: Apache-2.0
// Call frame information: from a pc to the rule that finds its caller. Signal-safe: reads the
// image's own mapped .eh_frame_hdr and .eh_frame, decodes one entry, keeps nothing.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "image/dwarf_regs.h"
#include "sigsafe/unwind/image.h"

// Registers by DWARF's numbers that find a caller.
#if defined(__x86_64__)
#define FM_CFI_N_REGS 17
#else
#define FM_CFI_N_REGS 32
#endif

enum fm_cfi_where {
	FM_CFI_SAME = 0,       // the caller's value is the one we have
	FM_CFI_UNDEFINED = 1,  // there is none; for the return address: the outermost frame
	FM_CFI_AT = 2,         // saved at CFA + off
	FM_CFI_VALUE = 3,      // CFA + off is the value
	FM_CFI_REGISTER = 4,   // in the register with number off
	FM_CFI_AT_EXPR = 5,    // saved at the address that an expression gives
	FM_CFI_VALUE_EXPR = 6, // an expression gives the value
};

struct fm_cfi_rule {
	int32_t off;      // for expressions: from fm_cfi_row.origin
	uint8_t where;    // enum fm_cfi_where
	uint8_t expr_len; // longer ones do not occur: such an entry is damaged
};

// What DW_CFA_remember_state saves.
struct fm_cfi_state {
	struct fm_cfi_rule cfa; // REGISTER: reg + off (the register is in cfa_reg); VALUE_EXPR
	uint8_t cfa_reg;
	struct fm_cfi_rule regs[FM_CFI_N_REGS];
};

struct fm_cfi_row {
	bool is_signal_frame; // the caller was interrupted: its registers are in the signal context
	uintptr_t origin;     // expressions are counted from here: the FDE
	uint64_t start, end;  // of the instructions for which it is the row
	struct fm_cfi_state state;
};

// Returns 0, or FM_STACK_NO_UNWIND_INFO when the image has no entry for pc, or
// FM_STACK_BAD_UNWIND_INFO. pc is the instruction itself: callers pass return address - 1 for outer
// frames.
uint32_t fm_sig_cfi_find(const struct fm_sig_image_info *image, uintptr_t pc, struct fm_cfi_row *ret);

// The FDE at fde applied to pc; what fm_sig_cfi_find calls once it has found the entry. [base, end)
// bounds every read.
uint32_t fm_sig_cfi_decode(uintptr_t fde, uintptr_t base, uintptr_t end, uintptr_t pc, struct fm_cfi_row *ret);
