// SPDX-License-Identifier: Apache-2.0
// Stepping up the native stack of a thread that sleeps. It is like sigsafe/unwind/unwind.c with two
// differences: memory is another process's, and of the registers only the stack pointer and the pc
// are known at first. Frames that save the others give them back on the way; where a frame counts
// from one that is still unknown, its place is searched for on the stack.
#include <string.h>
#include <ucontext.h>

#include "collect/remote/parts.h"
#include "base/bisect.h"
#include "format/model.h"
#include "image/unwind_row.h"
#include "image/x86_code.h"
#include "pyabi/greenlet.h"
#include "image/dwarf_regs.h"

// No real frame is larger; a CFA that jumps further is damage.
#define MAX_FRAME_BYTES (64ull << 20)
// How far up a frame with an unknown frame pointer is searched, and how many places are tried for a
// stack. How long the beginning of a function is, and how much it may push there.
#define MAX_SEARCH_BYTES 16384u
#define MAX_TRIES 64u
#define MAX_SURE_TRIES \
	1024u // where the function's own beginning says: each lies within the one before, on our stack, too
#define MAX_PROLOGUE_BYTES 96u
#define MAX_EPILOGUE_BYTES 48u
#define MAX_PUSHED_BYTES 128

// Beside enum fm_stack_error, what a step may return.
#define STEP_END UINT32_MAX
#define STEP_NEEDS_FP (UINT32_MAX - 1)

struct regs {
	uint64_t r[FM_RULE_N_REGS];
	uint64_t pc;
	uint32_t known;
};

static bool is_known(const struct regs *regs, unsigned reg)
{
	return regs->known >> reg & 1;
}

// True when ra is the address behind a call. *ret_target: where it leads; 0 = not known (a
// pointer).
static bool is_return_address(struct fm_remote *r, uint64_t ra, uint64_t *ret_target)
{
	uint8_t code[FM_X86_CALL_BYTES];
	uint64_t slot;
	const uint8_t *behind = code + sizeof(code);
	*ret_target = 0;
	if (ra < 8 || !fm_remote_images_is_code(r->images, ra - 1) ||
	    !fm_remote_read(r->memory, ra - sizeof(code), code, sizeof(code)))
		return false;
	if (fm_x86_is_near_call(behind, ra, ret_target))
		return fm_remote_images_is_code(r->images, *ret_target);
	if (fm_x86_is_slot_call(behind, ra, &slot) && fm_remote_u64(r->memory, slot, ret_target) &&
	    fm_remote_images_is_code(r->images, *ret_target))
		return true;
	*ret_target = 0;
	return fm_x86_is_pointer_call(behind);
}

// Where a call leads in the end: a PLT entry jumps on.
static uint64_t through_plt(struct fm_remote *r, uint64_t target)
{
	uint8_t code[FM_X86_PLT_BYTES];
	uint64_t slot, bound;
	if (!fm_remote_read(r->memory, target, code, sizeof(code)))
		return 0;
	if (!fm_x86_is_plt(code, target, &slot))
		return target;
	return fm_remote_u64(r->memory, slot, &bound) ? bound : 0;
}

// Where the function of pc begins; 0 = not known.
static uint64_t function_start(struct fm_remote *r, uint64_t pc)
{
	const struct fm_remote_image *image = fm_remote_images_find(r->images, pc);
	uint64_t start;
	return image && image->file && fm_unwind_file_function(image->file, pc - image->bias, &start) == FM_OK
		       ? image->bias + start
		       : 0;
}

// How large a frame the function's first instructions make: what its rule says is pushed, and the
// operand of sub $imm, %rsp. 0 = they do not tell. Not so where the size is known at run time only
// (alloca).
static uint64_t fixed_size(struct fm_remote *r, const struct fm_unwind_rule *rule, uint64_t start, uint64_t pc)
{
	uint8_t code[MAX_PROLOGUE_BYTES];
	int32_t lowest = -16, size;
	size_t n = FM_MIN((size_t)(pc - start), sizeof(code));
	if (!start || start > pc || !fm_remote_read(r->memory, start, code, n))
		return 0;
	for (unsigned reg = 0; reg < FM_RULE_N_REGS; reg++)
		if (rule->saved[reg] < lowest && rule->saved[reg] > -MAX_PUSHED_BYTES)
			lowest = rule->saved[reg];
	for (size_t i = 0; i + 7 <= n; i++) {
		if (code[i] != 0x48 || code[i + 2] != 0xec || (code[i + 1] != 0x83 && code[i + 1] != 0x81))
			continue;
		memcpy(&size, code + i + 3, sizeof(size));
		size = code[i + 1] == 0x83 ? (int8_t)code[i + 3] : size;
		return size > 0 ? (uint64_t)size + (uint64_t)-lowest : 0;
	}
	return (uint64_t)-lowest;
}

// Rows of run-time code, which the collector has published for the agent.
static void published_rule(const struct fm_remote *r, uint64_t pc, struct fm_unwind_rule *rule)
{
	const struct fm_shared *shared = r->shared;
	if (!shared)
		return;
	const struct fm_wire_row_image *images = (const void *)(shared->published + FM_WIRE_ROW_IMAGES_OFFSET);
	const struct fm_unwind_row *rows = (const void *)(shared->published + FM_WIRE_ROWS_OFFSET);
	uint32_t n = atomic_load(&shared->header->n_row_images);
	for (uint32_t i = 0; i < n && i < FM_WIRE_N_ROW_IMAGES; i++) {
		const struct fm_wire_row_image *e = &images[i];
		if (atomic_load(&e->process_idx1) != r->process_idx + 1 || e->flags != FM_WIRE_ROWS_OF_CODE ||
		    pc < e->start || pc >= e->end || !e->n_rows)
			continue;
		const struct fm_unwind_row *first = rows + e->first_row;
		size_t n_before = fm_bisect(e->n_rows, k, first[k].addr <= pc - e->bias);
		if (!n_before || first[n_before - 1].kind == FM_UNWIND_GAP)
			continue;
		const struct fm_unwind_row *row = &first[n_before - 1];
		rule->kind = row->kind == FM_UNWIND_REG     ? FM_RULE_REG
			     : row->kind == FM_UNWIND_DEREF ? FM_RULE_DEREF
							    : FM_RULE_END;
		rule->is_guessed = row->flags & FM_UNWIND_GUESSED;
		rule->cfa_reg = row->cfa_reg & 15;
		rule->cfa_off = row->cfa_off;
		for (unsigned reg = 0; reg < FM_RULE_N_REGS; reg++)
			rule->saved[reg] = FM_RULE_LOST;
		if (!(row->flags & FM_UNWIND_LOST_RBP))
			rule->saved[FM_DW_RBP] = row->rbp_off == FM_UNWIND_AT_RBP ? FM_RULE_AT_RBP : row->rbp_off;
		if (!(row->flags & FM_UNWIND_LOST_RBX))
			rule->saved[FM_DW_RBX] = row->rbx_off;
		return;
	}
}

#if defined(__x86_64__)

static uint32_t step_signal(struct fm_remote *r, struct regs *regs)
{
	static const uint8_t greg_of_dwarf[FM_RULE_N_REGS] = { REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
							       REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
							       REG_R12, REG_R13, REG_R14, REG_R15 };
	mcontext_t context;
	if (!fm_remote_read(r->memory, regs->r[FM_DW_RSP] + offsetof(ucontext_t, uc_mcontext), &context.gregs,
			    sizeof(context.gregs)))
		return FM_STACK_UNREADABLE;
	for (unsigned i = 0; i < FM_RULE_N_REGS; i++)
		regs->r[i] = (uint64_t)context.gregs[greg_of_dwarf[i]];
	regs->pc = (uint64_t)context.gregs[REG_RIP];
	regs->known = (1u << FM_RULE_N_REGS) - 1;
	return 0;
}

#else

static uint32_t step_signal(struct fm_remote *r, struct regs *regs)
{
	(void)r;
	(void)regs;
	return FM_STACK_NO_UNWIND_INFO;
}

#endif

// Stubs of generated code (CPython's perf trampolines) end right behind their call: the frame is
// taken down, and ret. What is left to be executed then tells how large the frame is.
static bool step_by_epilogue(struct fm_remote *r, struct regs *regs)
{
	uint64_t at = regs->r[FM_DW_RSP], fp = regs->r[FM_DW_RBP], ra, target;
	uint32_t known = regs->known & 1u << FM_DW_RBP;
	uint8_t code[MAX_EPILOGUE_BYTES];
	struct fm_x86_epilogue e = { 0 };
	if (!fm_remote_read(r->memory, regs->pc, code, sizeof(code)))
		return false;
	for (size_t i = 0; !e.is_ret;) {
		unsigned len = i + FM_X86_EPILOGUE_BYTES < sizeof(code) ? fm_x86_epilogue_step(code + i, &e) : 0;
		if (!len || (e.pops_rbp && !fm_remote_u64(r->memory, at, &fp)))
			return false;
		if (e.pops_rbp)
			known = 1u << FM_DW_RBP;
		at += e.n_popped;
		i += len;
	}
	if (!fm_remote_u64(r->memory, at, &ra) || !is_return_address(r, ra, &target))
		return false;
	regs->r[FM_DW_RSP] = at + 8;
	regs->r[FM_DW_RBP] = fp;
	regs->pc = ra;
	regs->known = 1u << FM_DW_RSP | known;
	return true;
}

// By the frame pointer, where nothing else is known and it leads to a return address.
static uint32_t step_guess(struct fm_remote *r, struct regs *regs)
{
	uint64_t sp = regs->r[FM_DW_RSP], fp = regs->r[FM_DW_RBP], ra, outer, target;
	const struct fm_remote_image *image = fm_remote_images_find(r->images, regs->pc);
	if (image && !image->file && step_by_epilogue(r, regs))
		return 0;
	if (!is_known(regs, FM_DW_RBP))
		return STEP_NEEDS_FP;
	if (fp < sp || (fp & 7) || fp - sp > MAX_FRAME_BYTES || !fm_remote_u64(r->memory, fp, &outer) ||
	    !fm_remote_u64(r->memory, fp + 8, &ra) || !is_return_address(r, ra, &target))
		return FM_STACK_NO_UNWIND_INFO;
	regs->r[FM_DW_RSP] = fp + 16;
	regs->r[FM_DW_RBP] = outer;
	regs->pc = ra;
	regs->known = 1u << FM_DW_RSP | 1u << FM_DW_RBP;
	return 0;
}

// One step outwards: 0, STEP_END or enum fm_stack_error.
static uint32_t step(struct fm_remote *r, struct regs *regs, bool is_exact, bool *ret_is_exact)
{
	uint64_t pc = regs->pc - (is_exact ? 0 : 1), cfa, ra, target;
	struct fm_unwind_rule rule = *fm_remote_images_rule(r->images, pc);
	*ret_is_exact = false;
	if (rule.kind == FM_RULE_NONE)
		published_rule(r, pc, &rule);
	if (rule.kind == FM_RULE_END)
		return STEP_END;
	if (rule.kind == FM_RULE_SIGNAL) {
		*ret_is_exact = true;
		return step_signal(r, regs);
	}
	if (rule.kind == FM_RULE_NONE)
		return fm_remote_images_is_code(r->images, pc) ? step_guess(r, regs) : FM_STACK_NOT_CODE;
	if (!is_known(regs, rule.cfa_reg))
		return rule.cfa_reg == FM_DW_RBP ? STEP_NEEDS_FP : FM_STACK_BAD_UNWIND_INFO;
	cfa = regs->r[rule.cfa_reg] + (rule.kind == FM_RULE_PLT ? (pc & 15) >= (uint64_t)rule.cfa_off ? 16u : 8u
								: (uint64_t)(int64_t)rule.cfa_off);
	if (rule.kind == FM_RULE_DEREF && !fm_remote_u64(r->memory, cfa, &cfa))
		return FM_STACK_UNREADABLE;
	if (cfa <= regs->r[FM_DW_RSP] || cfa - regs->r[FM_DW_RSP] > MAX_FRAME_BYTES || (cfa & 7))
		return FM_STACK_BAD_CFA;
	uint64_t ra_at = rule.ra_at_sp ? regs->r[FM_DW_RSP] + (uint64_t)(int64_t)rule.ra_at_sp : cfa - 8;
	if (!fm_remote_u64(r->memory, ra_at, &ra))
		return FM_STACK_UNREADABLE;
	if (rule.is_guessed && !is_return_address(r, ra, &target))
		return step_guess(r, regs);
	struct regs caller = { .pc = ra, .known = 1u << FM_DW_RSP };
	for (unsigned reg = 0; reg < FM_RULE_N_REGS; reg++) {
		int32_t off = rule.saved[reg];
		if (reg == FM_DW_RSP || off == FM_RULE_LOST || (off == FM_RULE_SAME && !is_known(regs, reg)))
			continue;
		caller.r[reg] = regs->r[reg];
		if (off != FM_RULE_SAME) {
			uint64_t at = off == FM_RULE_AT_RBP ? regs->r[FM_DW_RBP] : cfa + (uint64_t)(int64_t)off;
			if ((off == FM_RULE_AT_RBP && !is_known(regs, FM_DW_RBP)) ||
			    !fm_remote_u64(r->memory, at, &caller.r[reg]))
				continue;
		}
		caller.known |= 1u << reg;
	}
	caller.r[FM_DW_RSP] = cfa;
	*regs = caller;
	return 0;
}

static uint32_t walk(struct fm_remote *r, struct regs regs, bool is_exact, unsigned *n_tries);

// Walks on from the frame on top of native as if its frame pointer were fp.
static uint32_t try(struct fm_remote *r, const struct regs *regs, bool is_exact, uint64_t fp, unsigned *n_tries)
{
	struct regs caller = *regs;
	bool next_is_exact;
	caller.r[FM_DW_RBP] = fp;
	caller.known |= 1u << FM_DW_RBP;
	(*n_tries)++;
	uint32_t err = step(r, &caller, is_exact, &next_is_exact);
	if (err)
		return err;
	r->native.items[r->native.n - 1].cfa = caller.r[FM_DW_RSP];
	return walk(r, caller, next_is_exact, n_tries);
}

static void take_back(struct fm_remote *r, size_t n_native)
{
	r->native.n = n_native;
	r->native.items[n_native - 1].cfa = UINT64_MAX;
	if (r->precise_native != UINT32_MAX && r->precise_native >= n_native)
		r->precise_native = UINT32_MAX;
}

// The frame on top of native counts from a frame pointer that is not known. Above it lies the
// return address, so places on the stack are tried from which the walk gets to the stack's end:
// first where the function's own beginning says, then, from the stack pointer up, behind calls that
// lead to this function, then behind calls by pointer, which lead anywhere. What older calls left
// on the stack seldom passes.
static uint32_t search(struct fm_remote *r, const struct regs *regs, bool is_exact, unsigned *n_tries)
{
	size_t n_native = r->native.n;
	uint64_t sp = regs->r[FM_DW_RSP], pc = regs->pc - (is_exact ? 0 : 1), start = function_start(r, pc), ra, target;
	struct fm_unwind_rule rule = *fm_remote_images_rule(r->images, pc);
	if (rule.kind == FM_RULE_NONE || rule.cfa_reg != FM_DW_RBP) // as compilers do it where they tell nothing
		rule = (struct fm_unwind_rule){ .kind = FM_RULE_REG, .cfa_reg = FM_DW_RBP, .cfa_off = 16 };
	uint64_t size = fixed_size(r, &rule, start, pc), first_strong = 0;
	if (size && rule.kind == FM_RULE_REG && *n_tries < MAX_SURE_TRIES &&
	    fm_remote_u64(r->memory, sp + size - 8, &ra) && is_return_address(r, ra, &target)) {
		if (try(r, regs, is_exact, sp + size - (uint64_t)rule.cfa_off, n_tries) == STEP_END)
			return STEP_END;
		take_back(r, n_native);
	}
	for (unsigned pass = 0; pass < 2; pass++) {
		for (uint64_t fp = sp; fp < sp + MAX_SEARCH_BYTES && *n_tries < MAX_TRIES; fp += 8) {
			uint64_t cfa = fp + (uint64_t)(int64_t)rule.cfa_off;
			if (rule.kind == FM_RULE_DEREF && (!fm_remote_u64(r->memory, cfa, &cfa) || cfa <= fp))
				continue;
			if (!fm_remote_u64(r->memory, cfa - 8, &ra))
				continue;
			if (!is_return_address(r, ra, &target))
				continue;
			bool is_strong = target && start && through_plt(r, target) == start;
			if (pass == 0 ? !is_strong : target != 0)
				continue;
			if (is_strong && !first_strong)
				first_strong = fp;
			if (try(r, regs, is_exact, fp, n_tries) == STEP_END)
				return STEP_END;
			take_back(r, n_native);
		}
	}
	// The stack may be broken further out. Up to there it is right.
	return first_strong ? try(r, regs, is_exact, first_strong, n_tries) : FM_STACK_NO_UNWIND_INFO;
}

// As in sigsafe/unwind/unwind.c: in the greenlet module, with no Python frame further out.
static bool is_greenlet_base(const struct fm_remote *r, uint64_t pc, uint64_t cfa)
{
	const struct fm_remote_image *image = fm_remote_images_find(r->images, pc);
	if (!image || !image->path || !fm_py_is_greenlet_image(image->path))
		return false;
	if (r->python.row.frames != FM_PY_FRAMES_OBJECTS)
		return r->runs.n == 0 || r->runs.items[r->runs.n - 1].marker < cfa;
	size_t n_evaluators = 0;
	for (size_t i = 0; i < r->native.n; i++)
		n_evaluators += fm_remote_is_evaluator(r, i);
	return n_evaluators >= r->runs.n;
}

// From these registers to the outer end: STEP_END or enum fm_stack_error.
static uint32_t walk(struct fm_remote *r, struct regs regs, bool is_exact, unsigned *n_tries)
{
	for (;;) {
		if (regs.pc == 0)
			return STEP_END; // a thread started on a hand-made stack ends so
		if (r->native.n == r->max_frames)
			return FM_STACK_TOO_DEEP;
		if (is_exact && r->native.n)
			r->precise_native = (uint32_t)r->native.n;
		fm_vec_push(&r->native, (struct fm_native_frame){ regs.pc, UINT64_MAX });
		bool next_is_exact;
		struct regs caller = regs;
		uint32_t err = step(r, &caller, is_exact, &next_is_exact);
		if (err == STEP_NEEDS_FP)
			return search(r, &regs, is_exact, n_tries);
		if (err)
			return err;
		if (is_greenlet_base(r, regs.pc, caller.r[FM_DW_RSP])) {
			r->is_greenlet = true;
			return STEP_END;
		}
		if (caller.pc) // the outermost frame owns the rest of the stack
			r->native.items[r->native.n - 1].cfa = caller.r[FM_DW_RSP];
		regs = caller;
		is_exact = next_is_exact;
	}
}

void fm_remote_unwind(struct fm_remote *r, const struct fm_remote_regs *at)
{
	struct regs regs = { .pc = at->pc, .known = at->known };
	unsigned n_tries = 0;
	memcpy(regs.r, at->r, sizeof(regs.r));
	r->native.n = 0;
	r->native_sp = regs.r[FM_DW_RSP];
	r->precise_native = UINT32_MAX;
	r->is_greenlet = false;
	uint32_t err = walk(r, regs, true, &n_tries);
	r->native_error = err == STEP_END ? 0 : err;
}
