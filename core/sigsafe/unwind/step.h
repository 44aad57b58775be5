// SPDX-License-Identifier: Apache-2.0
// Between the parts of the unwinder: registers in, registers of the caller out.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

#include "sigsafe/unwind/expr.h"
#include "sigsafe/base/raw.h"
#include "sigsafe/unwind/unwind.h"

// No real frame is larger; a CFA that jumps further is damage.
#define FM_SIG_MAX_FRAME_BYTES (64ull << 20)

// Beyond enum fm_stack_error and FM_SIG_NEEDS_ALL_REGS, what a step may return.
#define FM_SIG_STEP_END UINT32_MAX
#define FM_SIG_STEPPED_IN_GREENLET (UINT32_MAX - 1) // done; the frame is the greenlet module's

static inline bool fm_sig_is_known(const struct fm_sig_regs *regs, unsigned reg)
{
	return regs->known >> reg & 1;
}

// Where a row is kept, and where that of the stretch of code around pc is.
static inline struct fm_sig_row *fm_sig_row_place(struct fm_sig_thread *t, uint64_t pc)
{
	return &t->rows[fm_sig_hash(pc) & (FM_SIG_ROWS - 1)];
}

static inline struct fm_sig_range *fm_sig_range_place(struct fm_sig_thread *t, uint64_t pc)
{
	return &t->ranges[fm_sig_hash(pc >> FM_SIG_RANGE_SHIFT) & (FM_SIG_RANGES - 1)];
}

// The row for the instruction at pc, from the cache or made now.
const struct fm_sig_row *fm_sig_row_find(struct fm_sig_thread *t, uint64_t pc);

// One step by all that the entry of pc says, for all registers; slower than by a row, which knows
// rbp and rbx only.
uint32_t fm_sig_step_full(struct fm_sig_regs *regs, uint64_t pc, bool is_exact);

// One step out of code that no unwind information describes. is_exact: the frame was interrupted,
// it has not called. *ret_is_exact: the caller was interrupted, too: this was a signal frame.
uint32_t fm_sig_step_guess(struct fm_sig_thread *t, struct fm_sig_regs *regs, bool is_exact, bool *ret_is_exact);

// True when the collector has seen executable memory there that is no image.
bool fm_sig_is_run_time_code(uint64_t pc);

// True when ra is the address behind a call in a loaded image or in code made at run time.
bool fm_sig_is_return_address(uint64_t ra);

// glibc's __start_context, to which the first function of a makecontext stack returns. Its entry
// says it was called, but nothing did: such a stack ends there. ahead: how far behind pc its known
// instructions may begin.
bool fm_sig_is_start_context(uint64_t pc, unsigned ahead);

// One step through a signal frame.
uint32_t fm_sig_step_signal(struct fm_sig_regs *regs);
