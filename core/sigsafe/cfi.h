// Call frame information: from a pc to the rule that finds its caller. Signal-safe: reads the image's own mapped
// .eh_frame_hdr and .eh_frame, decodes one entry, keeps nothing.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "sigsafe/image.h"

enum fm_cfi_where {
	FM_CFI_SAME = 0,      // the caller's value is the one we have
	FM_CFI_UNDEFINED = 1, // there is none; for the return address: the outermost frame
	FM_CFI_AT = 2,        // saved at CFA + off
	FM_CFI_OTHER = 3,     // by register or expression: not followed
};

struct fm_cfi_rule {
	uint8_t where; // enum fm_cfi_where
	int32_t off;
};

struct fm_cfi_row {
	bool is_signal_frame; // the caller was interrupted: its registers are in the signal context
	bool cfa_is_expr;
	uint8_t cfa_reg; // DWARF number
	int32_t cfa_off;
	const uint8_t *expr, *expr_end;
	struct fm_cfi_rule rbp, rbx, ra;
};

// Returns 0, or FM_STACK_NO_UNWIND_INFO when the image has no entry for pc, or FM_STACK_BAD_UNWIND_INFO.
// pc is the instruction itself: callers pass return address - 1 for outer frames.
uint32_t fm_sig_cfi_find(const struct fm_sig_image_info *image, uintptr_t pc, struct fm_cfi_row *ret);

// The FDE at fde applied to pc; what fm_sig_cfi_find calls once it has found the entry. [base, end) bounds every read.
uint32_t fm_sig_cfi_decode(const uint8_t *fde, const uint8_t *base, const uint8_t *end, uintptr_t pc, struct fm_cfi_row *ret);
