// Stepping from frame to frame. Each pc's rule is looked up once (cfi.c, about half a microsecond) and then remembered in
// the thread's row cache, so a step costs a hash, a compare and two loads.
#include "sigsafe/unwind.h"

#include "format/model.h"
#include "sigsafe/cfi.h"
#include "sigsafe/image.h"
#include "sigsafe/raw.h"
#include "sigsafe/restart.h"

#include "sigsafe/sigsafe.h"

// No real frame is larger; a CFA that jumps further is damage.
#define MAX_FRAME_BYTES (64ull << 20)
// Where code without unwind information may keep its return address.
#define N_WORDS_TO_SCAN 3

#if defined(__x86_64__)

enum { DW_RBX = 3, DW_RBP = 6, DW_RSP = 7, DW_RIP = 16 };

// From DWARF's register numbers to the signal context's.
static const uint8_t greg_of_dwarf[17] = { REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8,
					   REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP };

struct regs {
	uint64_t pc, sp, fp, bx;
	const greg_t *all; // the whole context, for the interrupted frame only; else NULL
};

// The PLT's rule as linkers write it: rsp + 8 + ((rip & 15) >= 11) * 8 (the comparison value differs between linkers).
static FM_SIGSAFE bool is_plt_rule(const struct fm_cfi_row *row)
{
	const uint8_t *e = row->expr;
	return row->expr_end - e == 11 && e[0] == 0x77 && e[1] == 8 && e[2] == 0x80 && e[3] == 0 && e[4] == 0x3f &&
	       e[5] == 0x1a && e[6] >= 0x30 && e[6] < 0x50 && e[7] == 0x2a && e[8] == 0x33 && e[9] == 0x24 && e[10] == 0x22;
}

// "rbp + n, dereferenced", with n in one signed LEB byte.
static FM_SIGSAFE bool is_deref_rule(const struct fm_cfi_row *row, int32_t *ret_off)
{
	const uint8_t *e = row->expr;
	if (row->expr_end - e != 3 || e[0] != 0x76 || (e[1] & 0x80) || e[2] != 0x06)
		return false;
	*ret_off = (e[1] & 0x40) ? (int32_t)e[1] - 128 : e[1];
	return true;
}

static FM_SIGSAFE void make_row(const struct fm_cfi_row *cfi, struct fm_sig_row *row)
{
	row->kind = FM_SIG_ROW_BAD;
	if (cfi->is_signal_frame) {
		row->kind = FM_SIG_ROW_SIGNAL;
		return;
	}
	if (cfi->ra.where == FM_CFI_UNDEFINED) {
		row->kind = FM_SIG_ROW_END;
		return;
	}
	// On x86-64 the return address is what `call` pushed: right below the CFA, always.
	if (cfi->ra.where != FM_CFI_AT || cfi->ra.off != -8)
		return;
	row->cfa_off = cfi->cfa_off;
	row->cfa_reg = cfi->cfa_reg;
	if (!cfi->cfa_is_expr) {
		if (cfi->cfa_reg > DW_RIP)
			return;
		row->kind = FM_SIG_ROW_REG;
	} else if (is_plt_rule(cfi)) {
		row->cfa_off = cfi->expr[6] - 0x30; // DW_OP_litN
		row->kind = FM_SIG_ROW_PLT;
	} else if (is_deref_rule(cfi, &row->cfa_off)) {
		row->kind = FM_SIG_ROW_DEREF;
	} else {
		return;
	}
	if (cfi->rbp.where == FM_CFI_AT)
		row->rbp_off = (int16_t)cfi->rbp.off;
	else if (cfi->rbp.where == FM_CFI_OTHER && cfi->rbp.off == 1)
		row->rbp_off = INT16_MAX; // saved at rbp itself
	else
		row->rbp_off = 0;
	row->rbx_off = cfi->rbx.where == FM_CFI_AT ? (int16_t)cfi->rbx.off : 0;
	if ((cfi->rbp.where == FM_CFI_AT && (cfi->rbp.off != row->rbp_off || row->rbp_off == 0)) ||
	    (cfi->rbx.where == FM_CFI_AT && (cfi->rbx.off != row->rbx_off || row->rbx_off == 0)))
		row->kind = FM_SIG_ROW_BAD;
}

// The row for the instruction at lookup_pc, from the cache or made now.
static FM_SIGSAFE const struct fm_sig_row *find_row(struct fm_sig_thread *t, uint64_t lookup_pc)
{
	struct fm_sig_row *row = &t->rows[fm_sig_hash(lookup_pc) & (FM_SIG_ROWS - 1)];
	if (FM_LIKELY(row->pc == lookup_pc && row->kind != FM_SIG_ROW_EMPTY))
		return row;
	row->pc = lookup_pc;
	row->rbp_off = row->rbx_off = 0;
	row->cfa_off = 0;
	row->kind = FM_SIG_ROW_NONE;
	struct fm_sig_image_info image;
	if (!fm_sig_image_find(lookup_pc, &image)) {
		return row;
	}
	fm_sig_image_tell(t, &image);
	struct fm_cfi_row cfi;
	uint32_t err = fm_sig_cfi_find(&image, lookup_pc, &cfi);
	if (err == 0)
		make_row(&cfi, row);
	else if (err != FM_STACK_NO_UNWIND_INFO)
		row->kind = FM_SIG_ROW_BAD;
	return row;
}

// True when ra looks like the address behind a call in code that can be unwound further.
static FM_SIGSAFE bool is_return_address(struct fm_sig_thread *t, uint64_t ra)
{
	struct fm_sig_image_info image;
	if (!fm_sig_image_find(ra, &image) || ra - image.start < 8 || !fm_sig_readable(t, ra - 7, 7))
		return false;
	const uint8_t *before = (const uint8_t *)ra;
	bool is_call = before[-5] == 0xe8;						  // call rel32
	for (unsigned len = 2; len <= 7; len++)						  // call *register, *memory
		is_call |= before[-(int)len] == 0xff && (before[-(int)len + 1] & 0x38) == 0x10;
	return is_call && find_row(t, ra - 1)->kind == FM_SIG_ROW_REG;
}

// Code without unwind information: follow the frame pointer where there is one; else the start-up code of libraries (_init,
// frame_dummy and the like), which keeps its return address within a word or two of the stack pointer.
static FM_SIGSAFE uint32_t step_without_info(struct fm_sig_thread *t, struct regs *regs)
{
	uint64_t fp, ra;
	if (regs->fp >= regs->sp && !(regs->fp & 7) && regs->fp - regs->sp <= MAX_FRAME_BYTES &&
	    fm_sig_read_u64(t, regs->fp, &fp) && fm_sig_read_u64(t, regs->fp + 8, &ra) && is_return_address(t, ra)) {
		regs->sp = regs->fp + 16;
		regs->fp = fp;
		regs->pc = ra;
		regs->all = NULL;
		return 0;
	}
	for (uint64_t at = regs->sp; at < regs->sp + 8 * N_WORDS_TO_SCAN; at += 8)
		if (fm_sig_read_u64(t, at, &ra) && is_return_address(t, ra)) {
			regs->sp = at + 8;
			regs->pc = ra;
			regs->all = NULL;
			return 0;
		}
	return FM_STACK_NO_UNWIND_INFO;
}

// One step outwards. Returns 0, UINT32_MAX at the outermost frame, or enum fm_stack_error.
static FM_SIGSAFE uint32_t step(struct fm_sig_thread *t, struct regs *regs, bool is_exact, bool *ret_is_exact)
{
	const struct fm_sig_row *row = find_row(t, regs->pc - (is_exact ? 0 : 1));
	uint64_t cfa, ra, fp = regs->fp, bx = regs->bx;
	*ret_is_exact = false;
	switch (row->kind) {
	case FM_SIG_ROW_END:
		return UINT32_MAX;
	case FM_SIG_ROW_BAD:
		return FM_STACK_BAD_UNWIND_INFO;
	case FM_SIG_ROW_SIGNAL: {
		// At __restore_rt the stack pointer points to the ucontext that the kernel pushed.
		const ucontext_t *uc = (const void *)regs->sp;
		if (!fm_sig_readable(t, regs->sp, sizeof(*uc)))
			return FM_STACK_UNREADABLE;
		regs->pc = (uint64_t)uc->uc_mcontext.gregs[REG_RIP];
		regs->sp = (uint64_t)uc->uc_mcontext.gregs[REG_RSP];
		regs->fp = (uint64_t)uc->uc_mcontext.gregs[REG_RBP];
		regs->bx = (uint64_t)uc->uc_mcontext.gregs[REG_RBX];
		regs->all = uc->uc_mcontext.gregs;
		*ret_is_exact = true;
		return 0;
	}
	case FM_SIG_ROW_REG:
		if (FM_LIKELY(row->cfa_reg == DW_RSP))
			cfa = regs->sp;
		else if (row->cfa_reg == DW_RBP)
			cfa = regs->fp;
		else if (row->cfa_reg == DW_RBX)
			cfa = regs->bx;
		else if (regs->all)
			cfa = (uint64_t)regs->all[greg_of_dwarf[row->cfa_reg]];
		else
			return FM_STACK_BAD_UNWIND_INFO;
		cfa += (uint64_t)(int64_t)row->cfa_off;
		break;
	case FM_SIG_ROW_PLT:
		cfa = regs->sp + 8 + ((regs->pc & 15) >= (uint64_t)row->cfa_off ? 8 : 0);
		break;
	case FM_SIG_ROW_DEREF:
		if (!fm_sig_read_u64(t, regs->fp + (uint64_t)(int64_t)row->cfa_off, &cfa))
			return FM_STACK_UNREADABLE;
		break;
	default:
		return step_without_info(t, regs);
	}
	if (cfa <= regs->sp || cfa - regs->sp > MAX_FRAME_BYTES || (cfa & 7))
		return FM_STACK_BAD_CFA;
	if (!fm_sig_read_u64(t, cfa - 8, &ra))
		return FM_STACK_UNREADABLE;
	if (row->rbp_off) {
		uint64_t at = row->rbp_off == INT16_MAX ? regs->fp : cfa + (uint64_t)(int64_t)row->rbp_off;
		if (!fm_sig_read_u64(t, at, &fp))
			return FM_STACK_UNREADABLE;
	}
	if (row->rbx_off && !fm_sig_read_u64(t, cfa + (uint64_t)(int64_t)row->rbx_off, &bx))
		return FM_STACK_UNREADABLE;
	regs->pc = ra;
	regs->sp = cfa;
	regs->fp = fp;
	regs->bx = bx;
	regs->all = NULL;
	if (ra == 0)
		return UINT32_MAX; // a thread started on a hand-made stack ends so
	return 0;
}

static FM_SIGSAFE struct regs regs_of(const ucontext_t *uc)
{
	return (struct regs){
		.pc = (uint64_t)uc->uc_mcontext.gregs[REG_RIP],
		.sp = (uint64_t)uc->uc_mcontext.gregs[REG_RSP],
		.fp = (uint64_t)uc->uc_mcontext.gregs[REG_RBP],
		.bx = (uint64_t)uc->uc_mcontext.gregs[REG_RBX],
		.all = uc->uc_mcontext.gregs,
	};
}

FM_SIGSAFE bool fm_sig_is_in_leaf_frame(struct fm_sig_thread *t, const ucontext_t *uc, uint64_t addr)
{
	struct regs regs = regs_of(uc);
	uint64_t sp = regs.sp;
	bool is_exact;
	return step(t, &regs, true, &is_exact) == 0 && addr >= sp && addr < regs.sp;
}

FM_SIGSAFE void fm_sig_unwind(struct fm_sig_thread *t, const ucontext_t *uc)
{
	struct regs regs = regs_of(uc);
	if (fm_sig_is_resuming(regs.pc)) { // in our own detour: the stack as the program knows it
		const struct fm_sig_resume *resume = (const struct fm_sig_resume *)regs.sp;
		if (fm_sig_readable(t, regs.sp, sizeof(*resume))) {
			regs.pc = resume->pc;
			regs.sp = resume->sp;
		}
	}
	bool is_exact = true;
	t->n_native = 0;
	t->exact_native = UINT32_MAX;
	t->native_error = 0;
	for (;;) {
		if (t->n_native == FM_SIG_MAX_FRAMES) {
			t->native_error = FM_STACK_TOO_DEEP;
			return;
		}
		struct fm_sig_native *frame = &t->native[t->n_native++];
		frame->pc = regs.pc;
		bool next_is_exact;
		uint32_t err = step(t, &regs, is_exact, &next_is_exact);
		frame->cfa = err ? UINT64_MAX : regs.sp; // the outermost frame owns the rest of the stack
		if (err) {
			t->native_error = err == UINT32_MAX ? 0 : err;
			return;
		}
		is_exact = next_is_exact;
		if (is_exact)
			t->exact_native = t->n_native;
	}
}

#else

// Native unwinding is written for x86-64 only; elsewhere a sample has its Python frames and this reason.
FM_SIGSAFE void fm_sig_unwind(struct fm_sig_thread *t, const ucontext_t *uc)
{
	(void)uc;
	t->n_native = 0;
	t->exact_native = UINT32_MAX;
	t->native_error = FM_STACK_NO_UNWIND_INFO;
}

FM_SIGSAFE bool fm_sig_is_in_leaf_frame(struct fm_sig_thread *t, const ucontext_t *uc, uint64_t addr)
{
	(void)t;
	(void)uc;
	(void)addr;
	return false;
}

#endif
