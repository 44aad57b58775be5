// SPDX-License-Identifier: Apache-2.0
// One step up a native stack that is not our own: another process's, or one that somebody wrote into
// a file. Where its memory and its rules come from, the caller says. Of the registers only the stack
// pointer and the pc need be known at first: frames that save the others give them back on the way.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image/unwind_file.h"

// No real frame is larger; a CFA that jumps further is damage.
#define FM_NATIVE_MAX_FRAME_BYTES (64ull << 20)

struct fm_native_regs {
	uint64_t r[FM_RULE_N_REGS]; // by DWARF number
	uint64_t pc;
	uint32_t known; // a bit for each of r
};

struct fm_native_stack {
	void *ctx;
	bool (*read)(void *ctx, uint64_t addr, void *to, size_t len); // all of it or nothing
	bool (*is_code)(void *ctx, uint64_t pc);
	// True where code is that no file holds: it describes itself nowhere.
	bool (*is_bare)(void *ctx, uint64_t pc);
	void (*rule)(void *ctx, uint64_t pc, struct fm_unwind_rule *ret);
};

// Beside enum fm_stack_error, what a step may return.
#define FM_NATIVE_END UINT32_MAX
#define FM_NATIVE_NEEDS_FP (UINT32_MAX - 1) // the frame counts from a frame pointer that is not known

// From a frame to its caller: 0, one of the above, or enum fm_stack_error; regs are changed by 0
// only. is_exact: pc is the instruction itself, as in the innermost frame and below a signal, and
// not behind a call.
uint32_t fm_native_step(const struct fm_native_stack *s, struct fm_native_regs *regs, bool is_exact,
			bool *ret_is_exact);

// True when ra is the address behind a call. *ret_target: where it leads; 0 = not known (a pointer).
bool fm_native_is_return_address(const struct fm_native_stack *s, uint64_t ra, uint64_t *ret_target);

static inline bool fm_native_knows(const struct fm_native_regs *regs, unsigned reg)
{
	return regs->known >> reg & 1;
}

static inline bool fm_native_u64(const struct fm_native_stack *s, uint64_t addr, uint64_t *ret)
{
	return s->read(s->ctx, addr, ret, sizeof(*ret));
}
