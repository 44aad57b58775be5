// SPDX-License-Identifier: Apache-2.0
// DWARF expressions as call frame information uses them: the PLT's, realigned stacks', hand-written
// assembly's. Signal-safe.
#pragma once

#include <stdint.h>

#include "sigsafe/unwind/cfi.h"

// Registers of one frame by DWARF number. Outer frames have those only that inner ones are known to
// have kept.
struct fm_sig_regs {
	uint64_t r[FM_CFI_N_REGS];
	uint32_t known; // bit n: r[n] is right
};

// A register was asked for that is not known. No error of the stack yet: the unwinder then starts
// again and follows all.
#define FM_SIG_NEEDS_ALL_REGS 0x10000u

// Returns 0 with *ret, enum fm_stack_error, or FM_SIG_NEEDS_ALL_REGS. first, when not NULL, lies on
// the stack at the start (the CFA, for rules of registers).
uint32_t fm_sig_expr_eval(uintptr_t expr, uint32_t len, const struct fm_sig_regs *regs, const uint64_t *first,
			  uint64_t *ret);
