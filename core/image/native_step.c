// SPDX-License-Identifier: Apache-2.0
#include "image/native_step.h"

#include <string.h>
#include <ucontext.h>

#include "base/compiler.h"
#include "format/model.h"
#include "image/dwarf_regs.h"
#include "image/x86_code.h"

#define MAX_EPILOGUE_BYTES 48u

bool fm_native_is_return_address(const struct fm_native_stack *s, uint64_t ra, uint64_t *ret_target)
{
	uint8_t code[FM_X86_CALL_BYTES];
	uint64_t slot;
	const uint8_t *behind = code + sizeof(code);
	*ret_target = 0;
	if (ra < 8 || !s->is_code(s->ctx, ra - 1) || !s->read(s->ctx, ra - sizeof(code), code, sizeof(code)))
		return false;
	if (fm_x86_is_near_call(behind, ra, ret_target))
		return s->is_code(s->ctx, *ret_target);
	if (fm_x86_is_slot_call(behind, ra, &slot) && fm_native_u64(s, slot, ret_target) &&
	    s->is_code(s->ctx, *ret_target))
		return true;
	*ret_target = 0;
	return fm_x86_is_pointer_call(behind);
}

#if defined(__x86_64__)

static uint32_t step_signal(const struct fm_native_stack *s, struct fm_native_regs *regs)
{
	static const uint8_t greg_of_dwarf[FM_RULE_N_REGS] = { REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
							       REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
							       REG_R12, REG_R13, REG_R14, REG_R15 };
	mcontext_t context;
	if (!s->read(s->ctx, regs->r[FM_DW_RSP] + offsetof(ucontext_t, uc_mcontext), &context.gregs,
		     sizeof(context.gregs)))
		return FM_STACK_UNREADABLE;
	for (unsigned i = 0; i < FM_RULE_N_REGS; i++)
		regs->r[i] = (uint64_t)context.gregs[greg_of_dwarf[i]];
	regs->pc = (uint64_t)context.gregs[REG_RIP];
	regs->known = (1u << FM_RULE_N_REGS) - 1;
	return 0;
}

#else

static uint32_t step_signal(const struct fm_native_stack *s, struct fm_native_regs *regs)
{
	(void)s;
	(void)regs;
	return FM_STACK_NO_UNWIND_INFO;
}

#endif

// Stubs of generated code (CPython's perf trampolines) end right behind their call: the frame is
// taken down, and ret. What is left to be executed then tells how large the frame is.
static bool step_by_epilogue(const struct fm_native_stack *s, struct fm_native_regs *regs)
{
	uint64_t at = regs->r[FM_DW_RSP], fp = regs->r[FM_DW_RBP], ra, target;
	uint32_t known = regs->known & 1u << FM_DW_RBP;
	uint8_t code[MAX_EPILOGUE_BYTES];
	struct fm_x86_epilogue e = { 0 };
	if (!s->read(s->ctx, regs->pc, code, sizeof(code)))
		return false;
	for (size_t i = 0; !e.is_ret;) {
		unsigned len = i + FM_X86_EPILOGUE_BYTES < sizeof(code) ? fm_x86_epilogue_step(code + i, &e) : 0;
		if (!len || (e.pops_rbp && !fm_native_u64(s, at, &fp)))
			return false;
		if (e.pops_rbp)
			known = 1u << FM_DW_RBP;
		at += e.n_popped;
		i += len;
	}
	if (!fm_native_u64(s, at, &ra) || !fm_native_is_return_address(s, ra, &target))
		return false;
	regs->r[FM_DW_RSP] = at + 8;
	regs->r[FM_DW_RBP] = fp;
	regs->pc = ra;
	regs->known = 1u << FM_DW_RSP | known;
	return true;
}

// By the frame pointer, where nothing else is known and it leads to a return address.
static uint32_t step_guess(const struct fm_native_stack *s, struct fm_native_regs *regs)
{
	uint64_t sp = regs->r[FM_DW_RSP], fp = regs->r[FM_DW_RBP], ra, outer, target;
	if (s->is_bare(s->ctx, regs->pc) && step_by_epilogue(s, regs))
		return 0;
	if (!fm_native_knows(regs, FM_DW_RBP))
		return FM_NATIVE_NEEDS_FP;
	if (fp < sp || (fp & 7) || fp - sp > FM_NATIVE_MAX_FRAME_BYTES || !fm_native_u64(s, fp, &outer) ||
	    !fm_native_u64(s, fp + 8, &ra) || !fm_native_is_return_address(s, ra, &target))
		return FM_STACK_NO_UNWIND_INFO;
	regs->r[FM_DW_RSP] = fp + 16;
	regs->r[FM_DW_RBP] = outer;
	regs->pc = ra;
	regs->known = 1u << FM_DW_RSP | 1u << FM_DW_RBP;
	return 0;
}

uint32_t fm_native_step(const struct fm_native_stack *s, struct fm_native_regs *regs, bool is_exact, bool *ret_is_exact)
{
	uint64_t pc = regs->pc - (is_exact ? 0 : 1), cfa, ra, target;
	struct fm_unwind_rule rule;
	*ret_is_exact = false;
	s->rule(s->ctx, pc, &rule);
	if (rule.kind == FM_RULE_END)
		return FM_NATIVE_END;
	if (rule.kind == FM_RULE_SIGNAL) {
		*ret_is_exact = true;
		return step_signal(s, regs);
	}
	if (rule.kind == FM_RULE_NONE)
		return s->is_code(s->ctx, pc) ? step_guess(s, regs) : FM_STACK_NOT_CODE;
	if (!fm_native_knows(regs, rule.cfa_reg))
		return rule.cfa_reg == FM_DW_RBP ? FM_NATIVE_NEEDS_FP : FM_STACK_BAD_UNWIND_INFO;
	cfa = regs->r[rule.cfa_reg] + (rule.kind == FM_RULE_PLT ? (pc & 15) >= (uint64_t)rule.cfa_off ? 16u : 8u
								: (uint64_t)(int64_t)rule.cfa_off);
	if (rule.kind == FM_RULE_DEREF && !fm_native_u64(s, cfa, &cfa))
		return FM_STACK_UNREADABLE;
	if (cfa <= regs->r[FM_DW_RSP] || cfa - regs->r[FM_DW_RSP] > FM_NATIVE_MAX_FRAME_BYTES || (cfa & 7))
		return FM_STACK_BAD_CFA;
	uint64_t ra_at = rule.ra_at_sp ? regs->r[FM_DW_RSP] + (uint64_t)(int64_t)rule.ra_at_sp : cfa - 8;
	if (!fm_native_u64(s, ra_at, &ra))
		return FM_STACK_UNREADABLE;
	if (rule.is_guessed && !fm_native_is_return_address(s, ra, &target))
		return step_guess(s, regs);
	struct fm_native_regs caller = { .pc = ra, .known = 1u << FM_DW_RSP };
	for (unsigned reg = 0; reg < FM_RULE_N_REGS; reg++) {
		int32_t off = rule.saved[reg];
		if (reg == FM_DW_RSP || off == FM_RULE_LOST || (off == FM_RULE_SAME && !fm_native_knows(regs, reg)))
			continue;
		caller.r[reg] = regs->r[reg];
		if (off != FM_RULE_SAME) {
			uint64_t at = off == FM_RULE_AT_RBP ? regs->r[FM_DW_RBP] : cfa + (uint64_t)(int64_t)off;
			if ((off == FM_RULE_AT_RBP && !fm_native_knows(regs, FM_DW_RBP)) ||
			    !fm_native_u64(s, at, &caller.r[reg]))
				continue;
		}
		caller.known |= 1u << reg;
	}
	caller.r[FM_DW_RSP] = cfa;
	*regs = caller;
	return 0;
}
