// SPDX-License-Identifier: Apache-2.0
// Stepping from frame to frame. Each pc's rule is looked up once (cfi.c, about half a microsecond)
// and then remembered in the thread's row cache, so a step costs a hash, a compare and two loads. A
// pc that is new there is mostly in a stretch of code with a row that is known: between prologue
// and epilogue a function has one. Rows know rbp and rbx; when an outer frame turns out to need
// another register, the stack is walked again by the full rules (sigsafe/unwind/x86_full.c).
#include "sigsafe/unwind/unwind.h"

#include <stddef.h>

#include "format/model.h"
#include "image/unwind_row.h"
#include "pyabi/greenlet.h"
#include "sigsafe/base/budget.h"
#include "sigsafe/unwind/cfi.h"
#include "sigsafe/unwind/image.h"
#include "sigsafe/base/raw.h"
#include "sigsafe/base/resume.h"
#include "sigsafe/unwind/step.h"

#include "sigsafe/base/sigsafe.h"

#if defined(__x86_64__)

// From DWARF's register numbers to the signal context's.
static const uint8_t greg_of_dwarf[17] = { REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
					   REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
					   REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP };

static FM_SIGSAFE void regs_from_context(struct fm_sig_regs *regs, const greg_t *gregs)
{
	for (unsigned i = 0; i < FM_CFI_N_REGS; i++)
		regs->r[i] = (uint64_t)gregs[greg_of_dwarf[i]];
	regs->known = (1u << FM_CFI_N_REGS) - 1;
}

// The PLT's rule as linkers write it: rsp + 8 + ((rip & 15) >= 11) * 8 (the comparison value
// differs between linkers).
static FM_SIGSAFE bool is_plt_rule(const uint8_t *e, uint32_t len)
{
	return len == 11 && e[0] == 0x77 && e[1] == 8 && e[2] == 0x80 && e[3] == 0 && e[4] == 0x3f && e[5] == 0x1a &&
	       e[6] >= 0x30 && e[6] < 0x50 && e[7] == 0x2a && e[8] == 0x33 && e[9] == 0x24 && e[10] == 0x22;
}

// "rbp + n, dereferenced", with n in one signed LEB byte.
static FM_SIGSAFE bool is_deref_rule(const uint8_t *e, uint32_t len, int32_t *ret_off)
{
	if (len != 3 || e[0] != 0x76 || (e[1] & 0x80) || e[2] != 0x06)
		return false;
	*ret_off = (e[1] & 0x40) ? (int32_t)e[1] - 128 : e[1];
	return true;
}

// The longest rule that a row can hold, the PLT's. False: longer, or not there any more.
#define MAX_RULE_BYTES 11
static FM_SIGSAFE bool read_rule(const struct fm_cfi_row *cfi, const struct fm_cfi_rule *rule, uint8_t *ret)
{
	return rule->expr_len <= MAX_RULE_BYTES &&
	       fm_sig_read(cfi->origin + (uintptr_t)(intptr_t)rule->off, ret, rule->expr_len);
}

// The offset of rbp or rbx as rows have it; *lost gets the bit when a row cannot say it.
static FM_SIGSAFE int16_t saved_offset(const struct fm_cfi_row *cfi, unsigned reg, uint8_t lost_bit, uint8_t *lost)
{
	const struct fm_cfi_rule *rule = &cfi->state.regs[reg];
	uint8_t e[MAX_RULE_BYTES];
	if (rule->where == FM_CFI_SAME)
		return 0;
	if (rule->where == FM_CFI_AT && rule->off && rule->off > INT16_MIN && rule->off < INT16_MAX)
		return (int16_t)rule->off;
	// gcc saves rbp of functions that realign their stack as "at rbp + 0".
	if (reg == FM_DW_RBP && rule->where == FM_CFI_AT_EXPR && read_rule(cfi, rule, e) && rule->expr_len == 2 &&
	    e[0] == 0x76 && e[1] == 0)
		return FM_UNWIND_AT_RBP;
	*lost |= lost_bit;
	return 0;
}

static FM_SIGSAFE void make_row(const struct fm_cfi_row *cfi, struct fm_sig_row *row)
{
	const struct fm_cfi_rule *cfa = &cfi->state.cfa, *ra = &cfi->state.regs[FM_DW_RA];
	uint8_t e[MAX_RULE_BYTES];
	row->kind = FM_SIG_ROW_FULL;
	if (cfi->is_signal_frame) {
		row->kind = FM_SIG_ROW_SIGNAL;
		return;
	}
	if (ra->where == FM_CFI_UNDEFINED) {
		row->kind = FM_SIG_ROW_END;
		return;
	}
	// In all but hand-written code the return address is what `call` pushed: right below the
	// CFA.
	if (ra->where != FM_CFI_AT || ra->off != -8 || cfi->state.regs[FM_DW_RSP].where != FM_CFI_SAME)
		return;
	row->rbp_off = saved_offset(cfi, FM_DW_RBP, FM_UNWIND_LOST_RBP, &row->flags);
	row->rbx_off = saved_offset(cfi, FM_DW_RBX, FM_UNWIND_LOST_RBX, &row->flags);
	if (row->flags & FM_UNWIND_LOST_RBP)
		return;
	if (cfa->where == FM_CFI_REGISTER) {
		if (cfi->state.cfa_reg >= FM_CFI_N_REGS) {
			row->kind = FM_SIG_ROW_BAD;
			return;
		}
		row->cfa_off = cfa->off;
		row->cfa_reg = cfi->state.cfa_reg;
		row->kind = FM_SIG_ROW_REG;
	} else if (!read_rule(cfi, cfa, e)) {
		return;
	} else if (is_plt_rule(e, cfa->expr_len)) {
		row->cfa_off = e[6] - 0x30; // DW_OP_litN
		row->kind = FM_SIG_ROW_PLT;
	} else if (is_deref_rule(e, cfa->expr_len, &row->cfa_off)) {
		row->kind = FM_SIG_ROW_DEREF;
	}
}

static FM_SIGSAFE void take_row_of(const struct fm_wire_row_image *e, uint64_t pc, struct fm_sig_row *row)
{
	const struct fm_unwind_row *rows = (const void *)(fm_sig.published + FM_WIRE_ROWS_OFFSET);
	uint64_t lo = e->first_row, hi = lo + e->n_rows, addr = pc - e->bias;
	if (lo == hi || hi > FM_WIRE_ROWS_BYTES / sizeof(*rows) || addr < rows[lo].addr)
		return;
	while (hi - lo > 1) {
		uint64_t mid = lo + (hi - lo) / 2;
		if (rows[mid].addr <= addr)
			lo = mid;
		else
			hi = mid;
	}
	const struct fm_unwind_row *found = &rows[lo];
	row->cfa_off = found->cfa_off;
	row->cfa_reg = found->cfa_reg;
	row->rbp_off = found->rbp_off;
	row->rbx_off = found->rbx_off;
	row->flags = found->flags;
	row->kind = found->kind == FM_UNWIND_REG && found->cfa_reg < FM_CFI_N_REGS ? FM_SIG_ROW_REG
		    : found->kind == FM_UNWIND_DEREF                               ? FM_SIG_ROW_DEREF
		    : found->kind == FM_UNWIND_END                                 ? FM_SIG_ROW_END
										   : FM_SIG_ROW_NONE;
}

#define MAX_PATH_BYTES 4096u

static FM_SIGSAFE uint32_t hash_path(uintptr_t path)
{
	uint32_t hash = FM_WIRE_PATH_HASH;
	uint8_t byte;
	for (uint32_t i = 0; i < MAX_PATH_BYTES && fm_sig_read_u8(path + i, &byte) && byte; i++)
		hash = fm_wire_path_hash_add(hash, byte);
	return hash;
}

static FM_SIGSAFE bool is_greenlet(uintptr_t path)
{
	char end[64] = ""; // of the path: its last name is all that counts
	size_t len = fm_sig_read_length(path, MAX_PATH_BYTES), n = FM_MIN(len, sizeof(end) - 1);
	return fm_sig_read(path + len - n, end, n) && fm_py_is_greenlet_image(end);
}

// Rows that the collector made from the image's file.
static FM_SIGSAFE void take_published_row(const struct fm_sig_image_info *image, uint64_t pc, struct fm_sig_row *row)
{
	const struct fm_wire_row_image *images = (const void *)(fm_sig.published + FM_WIRE_ROW_IMAGES_OFFSET);
	uint32_t n = atomic_load_explicit(&fm_sig.header->n_row_images, memory_order_acquire);
	for (uint32_t i = 0; i < n && i < FM_WIRE_N_ROW_IMAGES; i++) {
		const struct fm_wire_row_image *e = &images[i];
		if (atomic_load_explicit(&e->process_idx1, memory_order_acquire) != fm_sig.process_idx + 1 ||
		    e->start != image->start || e->bias != image->bias || e->flags)
			continue;
		if (e->path_hash == hash_path(image->path ? image->path : (uintptr_t)fm_sig.exe))
			take_row_of(e, pc, row);
		return;
	}
}

// The published entry with these flags that holds pc, or NULL.
static FM_SIGSAFE const struct fm_wire_row_image *find_code(uint64_t pc, uint32_t flags)
{
	const struct fm_wire_row_image *images = (const void *)(fm_sig.published + FM_WIRE_ROW_IMAGES_OFFSET);
	uint32_t n = fm_sig.shared ? atomic_load_explicit(&fm_sig.header->n_row_images, memory_order_acquire) : 0;
	for (uint32_t i = 0; i < n && i < FM_WIRE_N_ROW_IMAGES; i++) {
		const struct fm_wire_row_image *e = &images[i];
		if (atomic_load_explicit(&e->process_idx1, memory_order_acquire) == fm_sig.process_idx + 1 &&
		    e->flags == flags && pc >= e->start && pc < e->end)
			return e;
	}
	return NULL;
}

FM_SIGSAFE bool fm_sig_is_run_time_code(uint64_t pc)
{
	return find_code(pc, FM_WIRE_ROWS_NONE) != NULL;
}

// What a row's range does not say, since it is told by the instructions at pc.
static FM_SIGSAFE const struct fm_sig_row *check_start_context(struct fm_sig_row *row)
{
	if (row->kind == FM_SIG_ROW_REG && row->cfa_reg == FM_DW_RSP && row->cfa_off == 8 &&
	    fm_sig_is_start_context(row->pc, 0))
		row->kind = FM_SIG_ROW_END;
	return row;
}

FM_SIGSAFE const struct fm_sig_row *fm_sig_row_find(struct fm_sig_thread *t, uint64_t pc)
{
	struct fm_sig_row *row = fm_sig_row_place(t, pc);
	if (FM_LIKELY(row->pc == pc && row->kind != FM_SIG_ROW_EMPTY))
		return row;
	struct fm_sig_range *range = fm_sig_range_place(t, pc);
	if (pc - range->row.pc < range->size) {
		*row = range->row;
		row->pc = pc;
		return check_start_context(row);
	}
	row->pc = pc;
	row->rbp_off = row->rbx_off = 0;
	row->cfa_off = 0;
	row->flags = 0;
	row->kind = FM_SIG_ROW_NONE;
	struct fm_sig_image_info image;
	if (!fm_sig_image_find(pc, &image)) {
		const struct fm_wire_row_image *code = find_code(pc, FM_WIRE_ROWS_OF_CODE);
		if (code)
			take_row_of(code, pc, row);
		return row;
	}
	bool is_told = fm_sig_image_publish(t, &image);
	struct fm_cfi_row cfi;
	uint32_t err = fm_sig_cfi_find(&image, pc, &cfi);
	if (err == 0) {
		make_row(&cfi, row);
		if (is_told) { // else one that is found here would not tell it
			range->row = *row;
			range->row.pc = cfi.start;
			range->size = cfi.end - cfi.start;
		}
		return check_start_context(row);
	}
	if (err != FM_STACK_NO_UNWIND_INFO)
		row->kind = FM_SIG_ROW_BAD;
	else if (fm_sig.shared)
		take_published_row(&image, pc, row);
	if (FM_UNLIKELY(is_greenlet(image.path)))
		row->flags |= FM_SIG_ROW_IN_GREENLET;
	return row;
}

FM_SIGSAFE uint32_t fm_sig_step_signal(struct fm_sig_regs *regs)
{
	// At __restore_rt the stack pointer points to the ucontext that the kernel pushed.
	greg_t gregs[NGREG];
	if (!fm_sig_read(regs->r[FM_DW_RSP] + offsetof(ucontext_t, uc_mcontext.gregs), gregs, sizeof(gregs)))
		return FM_STACK_UNREADABLE;
	regs_from_context(regs, gregs);
	return 0;
}

// One step outwards. Returns 0, FM_SIG_STEPPED_IN_GREENLET, FM_SIG_STEP_END, enum fm_stack_error or
// FM_SIG_NEEDS_ALL_REGS.
static FM_SIGSAFE uint32_t step(struct fm_sig_thread *t, struct fm_sig_regs *regs, bool is_exact, bool want_all,
				bool *ret_is_exact)
{
	uint64_t *r = regs->r;
	uint64_t pc = r[FM_DW_RA] - (is_exact ? 0 : 1);
	const struct fm_sig_row *row = fm_sig_row_find(t, pc);
	uint64_t cfa, ra, fp = r[FM_DW_RBP], bx = r[FM_DW_RBX];
	uint8_t kind = row->kind;
	uint32_t done = FM_UNLIKELY(row->flags & FM_SIG_ROW_IN_GREENLET) ? FM_SIG_STEPPED_IN_GREENLET : 0;
	*ret_is_exact = false;
	if (FM_UNLIKELY(want_all) && (kind == FM_SIG_ROW_REG || kind == FM_SIG_ROW_PLT || kind == FM_SIG_ROW_DEREF)) {
		uint32_t err = fm_sig_step_full(regs, pc, is_exact);
		if (err != FM_STACK_NO_UNWIND_INFO) // else the row was published, and is all there is
			return err ? err : done;
	}
	switch (kind) {
	case FM_SIG_ROW_END:
		return FM_SIG_STEP_END;
	case FM_SIG_ROW_BAD:
		return FM_STACK_BAD_UNWIND_INFO;
	case FM_SIG_ROW_FULL:
		return fm_sig_step_full(regs, pc, is_exact);
	case FM_SIG_ROW_SIGNAL:
		*ret_is_exact = true;
		return fm_sig_step_signal(regs);
	case FM_SIG_ROW_REG:
		if (FM_UNLIKELY(!fm_sig_is_known(regs, row->cfa_reg)))
			return FM_SIG_NEEDS_ALL_REGS;
		cfa = r[row->cfa_reg] + (uint64_t)(int64_t)row->cfa_off;
		break;
	case FM_SIG_ROW_PLT:
		cfa = r[FM_DW_RSP] + 8 + ((r[FM_DW_RA] & 15) >= (uint64_t)row->cfa_off ? 8 : 0);
		break;
	case FM_SIG_ROW_DEREF:
		if (!fm_sig_is_known(regs, FM_DW_RBP))
			return FM_SIG_NEEDS_ALL_REGS;
		if (!fm_sig_read_u64(fp + (uint64_t)(int64_t)row->cfa_off, &cfa))
			return FM_STACK_UNREADABLE;
		break;
	default:
		if (fm_sig_is_late(t)) // a guess may take as long as a hundred steps
			return FM_STACK_CUT;
		return fm_sig_step_guess(t, regs, is_exact, ret_is_exact);
	}
	if (cfa <= r[FM_DW_RSP] || cfa - r[FM_DW_RSP] > FM_SIG_MAX_FRAME_BYTES || (cfa & 7))
		return FM_STACK_BAD_CFA;
	if (!fm_sig_read_u64(cfa - 8, &ra))
		return FM_STACK_UNREADABLE;
	uint32_t known = regs->known & (1u << FM_DW_RSP | 1u << FM_DW_RA | 1u << FM_DW_RBP | 1u << FM_DW_RBX);
	if (row->rbp_off) {
		uint64_t at = row->rbp_off == FM_UNWIND_AT_RBP ? fp : cfa + (uint64_t)(int64_t)row->rbp_off;
		if (!fm_sig_read_u64(at, &fp))
			return FM_STACK_UNREADABLE;
		known |= 1u << FM_DW_RBP;
	}
	if (row->rbx_off) {
		if (!fm_sig_read_u64(cfa + (uint64_t)(int64_t)row->rbx_off, &bx))
			return FM_STACK_UNREADABLE;
		known |= 1u << FM_DW_RBX;
	}
	if (FM_UNLIKELY(row->flags & FM_UNWIND_GUESSED) && !fm_sig_is_return_address(ra))
		return fm_sig_step_guess(t, regs, is_exact, ret_is_exact);
	if (FM_UNLIKELY(row->flags))
		known &= ~((row->flags & FM_UNWIND_LOST_RBP ? 1u << FM_DW_RBP : 0) |
			   (row->flags & FM_UNWIND_LOST_RBX ? 1u << FM_DW_RBX : 0));
	r[FM_DW_RA] = ra;
	r[FM_DW_RSP] = cfa;
	r[FM_DW_RBP] = fp;
	r[FM_DW_RBX] = bx;
	regs->known = known;
	return done;
}

FM_SIGSAFE bool fm_sig_is_in_leaf_frame(struct fm_sig_thread *t, const ucontext_t *uc, uint64_t addr)
{
	struct fm_sig_regs regs;
	regs_from_context(&regs, uc->uc_mcontext.gregs);
	uint64_t sp = regs.r[FM_DW_RSP];
	bool is_exact;
	return step(t, &regs, true, false, &is_exact) == 0 && addr >= sp && addr < regs.r[FM_DW_RSP];
}

// Our hooks stand between a program and its allocator; they are no part of its stacks.
static FM_SIGSAFE bool is_ours(uint64_t pc)
{
	return pc - fm_sig.own_start < fm_sig.own_end - fm_sig.own_start;
}

// In the greenlet module, with no Python frame further out: a greenlet began here. cfa: the frame's
// end on the stack.
static FM_SIGSAFE bool is_greenlet_base(const struct fm_sig_thread *t, uint64_t cfa)
{
	if (fm_sig.python.row.frames != FM_PY_FRAMES_OBJECTS)
		return t->n_runs == 0 || t->runs[t->n_runs - 1].marker < cfa;
	uint32_t n_evaluators = 0;
	for (uint32_t i = 0; i < t->n_native; i++)
		n_evaluators += fm_sig_is_evaluator(t, i);
	return n_evaluators >= t->n_runs;
}

// The whole stack. want_all: every register is followed, by the full rules.
static FM_SIGSAFE uint32_t walk(struct fm_sig_thread *t, const ucontext_t *uc, bool want_all)
{
	struct fm_sig_regs regs;
	regs_from_context(&regs, uc->uc_mcontext.gregs);
	if (fm_sig_is_resuming(regs.r[FM_DW_RA])) { // in our own detour: the stack as the program knows it
		struct fm_sig_resume resume;
		if (fm_sig_read(regs.r[FM_DW_RSP], &resume, sizeof(resume))) {
			regs.r[FM_DW_RA] = resume.pc;
			regs.r[FM_DW_RSP] = resume.sp;
		}
	}
	bool is_exact = true;
	t->n_native = 0;
	t->native_sp = regs.r[FM_DW_RSP];
	t->precise_native = UINT32_MAX;
	t->is_leaf_ours = is_ours(regs.r[FM_DW_RA]);
	t->is_greenlet = false;
	for (;;) {
		if (t->n_native == FM_SIG_MAX_FRAMES)
			return FM_STACK_TOO_DEEP;
		if (fm_sig_is_out_of_time(t, t->n_native))
			return FM_STACK_CUT;
		struct fm_native_frame *frame = &t->native[t->n_native++];
		frame->pc = regs.r[FM_DW_RA];
		bool is_left_out = is_ours(frame->pc);
		bool next_is_exact;
		uint32_t err = step(t, &regs, is_exact, want_all, &next_is_exact);
		if (FM_UNLIKELY(err == FM_SIG_STEPPED_IN_GREENLET)) {
			t->is_greenlet = is_greenlet_base(t, regs.r[FM_DW_RSP]);
			err = t->is_greenlet ? FM_SIG_STEP_END : 0;
		}
		if (err == 0 && regs.r[FM_DW_RA] == 0)
			err = FM_SIG_STEP_END;                     // a thread started on a hand-made stack ends so
		frame->cfa = err ? UINT64_MAX : regs.r[FM_DW_RSP]; // the outermost frame owns the rest of the stack
		if (err)
			return err == FM_SIG_STEP_END ? 0 : err;
		if (FM_UNLIKELY(is_left_out)) { // its part of the stack becomes the caller's
			t->n_native--;
			if (t->precise_native == t->n_native)
				t->precise_native = UINT32_MAX;
		}
		is_exact = next_is_exact;
		if (is_exact)
			t->precise_native = t->n_native;
	}
}

FM_SIGSAFE void fm_sig_unwind(struct fm_sig_thread *t, const ucontext_t *uc)
{
	uint32_t err = walk(t, uc, false);
	if (FM_UNLIKELY(err == FM_SIG_NEEDS_ALL_REGS))
		err = walk(t, uc, true);
	t->native_error = err == FM_SIG_NEEDS_ALL_REGS ? FM_STACK_BAD_UNWIND_INFO : err;
}

#else

// Native unwinding is written for x86-64 only; elsewhere a sample has its Python frames and this
// reason.
FM_SIGSAFE void fm_sig_unwind(struct fm_sig_thread *t, const ucontext_t *uc)
{
	(void)uc;
	t->n_native = 0;
	t->native_sp = 0;
	t->is_leaf_ours = t->is_greenlet = false;
	t->precise_native = UINT32_MAX;
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
