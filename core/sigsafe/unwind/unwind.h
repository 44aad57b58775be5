// SPDX-License-Identifier: Apache-2.0
// Native stacks: from a signal context to the list of (pc, CFA), innermost first.
#pragma once

#include <stdbool.h>
#include <ucontext.h>

#include "sigsafe/base/state.h"

enum fm_sig_row_kind {
	FM_SIG_ROW_EMPTY = 0,
	FM_SIG_ROW_REG,    // CFA = register + cfa_off
	FM_SIG_ROW_DEREF,  // CFA = *(rbp + cfa_off): functions that realign their stack
	FM_SIG_ROW_PLT,    // CFA = rsp + 8, plus 8 in the second half of a 16-byte PLT entry
	FM_SIG_ROW_FULL,   // anything else: decoded again at each step
	FM_SIG_ROW_SIGNAL, // registers of the caller are in the signal context at rsp
	FM_SIG_ROW_END,    // outermost frame
	FM_SIG_ROW_NONE,   // no unwind information here: follow the frame pointer
	FM_SIG_ROW_BAD,
};

// In fm_sig_row.flags, beside enum fm_unwind_flags: code of the greenlet module.
#define FM_SIG_ROW_IN_GREENLET 0x80u

// Fills t->native, t->n_native, t->precise_native and t->native_error (0 = the outermost frame was
// reached). By the Python frames in t it knows where a greenlet's stack ends.
void fm_sig_unwind(struct fm_sig_thread *t, const ucontext_t *uc);

// True when addr is in the interrupted function's own part of the stack.
bool fm_sig_is_in_leaf_frame(struct fm_sig_thread *t, const ucontext_t *uc, uint64_t addr);

// True for the i-th native frame when it is a call of Python's evaluator.
static FM_ALWAYS_INLINE bool fm_sig_is_evaluator(const struct fm_sig_thread *t, uint32_t i)
{
	return fm_merge_is_evaluator(t->native, i, t->is_leaf_ours, &fm_sig.python.evaluator);
}
