// SPDX-License-Identifier: Apache-2.0
// Stepping by the whole of DWARF's rules. Rows (unwind.c) cover what compilers emit; hand-written
// assembly counts its frame from any register or by an expression (OpenSSL: "what rsp + 64 points
// to, plus 8").
#include "sigsafe/unwind/step.h"

#include "format/model.h"
#include "sigsafe/unwind/cfi.h"
#include "sigsafe/unwind/image.h"
#include "sigsafe/base/raw.h"

#include "sigsafe/base/sigsafe.h"

#if defined(__x86_64__)

static FM_SIGSAFE uint32_t find_cfa(const struct fm_cfi_row *cfi, const struct fm_sig_regs *regs, uint64_t *ret)
{
	const struct fm_cfi_rule *rule = &cfi->state.cfa;
	if (rule->where == FM_CFI_VALUE_EXPR)
		return fm_sig_expr_eval(cfi->origin + rule->off, rule->expr_len, regs, NULL, ret);
	if (cfi->state.cfa_reg >= FM_CFI_N_REGS)
		return FM_STACK_BAD_UNWIND_INFO;
	if (!fm_sig_is_known(regs, cfi->state.cfa_reg))
		return FM_SIG_NEEDS_ALL_REGS;
	*ret = regs->r[cfi->state.cfa_reg] + (uint64_t)(int64_t)rule->off;
	return 0;
}

// One register's value in the caller. *ret_is_known says whether it has one.
static FM_SIGSAFE uint32_t find_register(const struct fm_cfi_row *cfi, const struct fm_sig_regs *regs, unsigned reg,
					 uint64_t cfa, uint64_t *ret, bool *ret_is_known)
{
	const struct fm_cfi_rule *rule = &cfi->state.regs[reg];
	uint32_t err;
	*ret_is_known = true;
	switch (rule->where) {
	case FM_CFI_SAME:
		*ret = regs->r[reg];
		*ret_is_known = fm_sig_is_known(regs, reg) && (FM_DW_CALLEE_SAVED >> reg & 1);
		return 0;
	case FM_CFI_AT:
		return fm_sig_read_u64(cfa + (uint64_t)(int64_t)rule->off, ret) ? 0 : FM_STACK_UNREADABLE;
	case FM_CFI_VALUE:
		*ret = cfa + (uint64_t)(int64_t)rule->off;
		return 0;
	case FM_CFI_REGISTER:
		if (rule->off < 0 || rule->off >= FM_CFI_N_REGS)
			return FM_STACK_BAD_UNWIND_INFO;
		*ret = regs->r[rule->off];
		*ret_is_known = fm_sig_is_known(regs, (unsigned)rule->off);
		return 0;
	case FM_CFI_AT_EXPR:
	case FM_CFI_VALUE_EXPR:
		err = fm_sig_expr_eval(cfi->origin + rule->off, rule->expr_len, regs, &cfa, ret);
		if (err || rule->where == FM_CFI_VALUE_EXPR)
			return err;
		return fm_sig_read_u64(*ret, ret) ? 0 : FM_STACK_UNREADABLE;
	default:
		*ret_is_known = false;
		return 0;
	}
}

FM_SIGSAFE uint32_t fm_sig_step_full(struct fm_sig_regs *regs, uint64_t pc, bool is_exact)
{
	struct fm_sig_image_info image;
	struct fm_cfi_row cfi;
	if (!fm_sig_image_find(pc, &image))
		return FM_STACK_NO_UNWIND_INFO;
	uint32_t err = fm_sig_cfi_find(&image, pc, &cfi);
	if (err)
		return err;
	uint64_t cfa = 0;
	err = find_cfa(&cfi, regs, &cfa);
	if (err)
		return err;
	// With the return address in a register the frame may be empty; a step must gain ground all
	// the same, or the walk never ends.
	bool is_empty = cfa == regs->r[FM_DW_RSP] && cfi.state.regs[FM_DW_RA].where == FM_CFI_REGISTER && is_exact;
	if ((cfa <= regs->r[FM_DW_RSP] && !is_empty) || cfa - regs->r[FM_DW_RSP] > FM_SIG_MAX_FRAME_BYTES || (cfa & 7))
		return FM_STACK_BAD_CFA;
	struct fm_sig_regs caller;
	caller.known = 0;
	for (unsigned reg = 0; reg < FM_CFI_N_REGS; reg++) {
		bool is_known;
		caller.r[reg] = 0;
		err = find_register(&cfi, regs, reg, cfa, &caller.r[reg], &is_known);
		// A rule counted from a register that is lost loses this one, too; only the return
		// address cannot do without.
		if (err == FM_SIG_NEEDS_ALL_REGS && reg != FM_DW_RA)
			is_known = false;
		else if (err)
			return err;
		caller.known |= (uint32_t)is_known << reg;
	}
	if (!fm_sig_is_known(&caller, FM_DW_RA))
		return cfi.state.regs[FM_DW_RA].where == FM_CFI_REGISTER ? FM_SIG_NEEDS_ALL_REGS
									 : FM_STACK_BAD_UNWIND_INFO;
	if (!fm_sig_is_known(&caller, FM_DW_RSP)) {
		caller.r[FM_DW_RSP] = cfa;
		caller.known |= 1u << FM_DW_RSP;
	}
	fm_sig_copy(regs, &caller, sizeof(caller));
	return 0;
}

#endif
