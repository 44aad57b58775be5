// SPDX-License-Identifier: Apache-2.0
// Stepping up the native stack of a thread that sleeps (image/native_step.h). Memory is another
// process's, and of the registers only the stack pointer and the pc are known at first. Where a
// frame counts from one that is still unknown, its place is searched for on the stack.
#include <string.h>

#include "collect/remote/parts.h"
#include "base/bisect.h"
#include "format/model.h"
#include "image/native_step.h"
#include "image/unwind_row.h"
#include "image/x86_code.h"
#include "pyabi/greenlet.h"
#include "image/dwarf_regs.h"

// How far up a frame with an unknown frame pointer is searched, and how many places are tried for a
// stack. How long the beginning of a function is, and how much it may push there.
#define MAX_SEARCH_BYTES 16384u
#define MAX_TRIES 64u
#define MAX_SURE_TRIES \
	1024u // where the function's own beginning says: each lies within the one before, on our stack, too
#define MAX_PROLOGUE_BYTES 96u
#define MAX_PUSHED_BYTES 128

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

// What a step asks of the process: struct fm_native_stack over a struct fm_remote.

static bool stack_read(void *ctx, uint64_t addr, void *to, size_t len)
{
	return fm_remote_read(((struct fm_remote *)ctx)->memory, addr, to, len);
}

static bool stack_is_code(void *ctx, uint64_t pc)
{
	return fm_remote_images_is_code(((struct fm_remote *)ctx)->images, pc);
}

static bool stack_is_bare(void *ctx, uint64_t pc)
{
	const struct fm_remote_image *image = fm_remote_images_find(((struct fm_remote *)ctx)->images, pc);
	return image && !image->file;
}

static void stack_rule(void *ctx, uint64_t pc, struct fm_unwind_rule *ret)
{
	struct fm_remote *r = ctx;
	*ret = *fm_remote_images_rule(r->images, pc);
	if (ret->kind == FM_RULE_NONE)
		published_rule(r, pc, ret);
}

static struct fm_native_stack stack_of(struct fm_remote *r)
{
	return (struct fm_native_stack){ r, stack_read, stack_is_code, stack_is_bare, stack_rule };
}

static uint32_t walk(struct fm_remote *r, struct fm_native_regs regs, bool is_exact, unsigned *n_tries);

// Walks on from the frame on top of native as if its frame pointer were fp.
static uint32_t try(struct fm_remote *r, const struct fm_native_regs *regs, bool is_exact, uint64_t fp,
		    unsigned *n_tries)
{
	const struct fm_native_stack stack = stack_of(r);
	struct fm_native_regs caller = *regs;
	bool next_is_exact;
	caller.r[FM_DW_RBP] = fp;
	caller.known |= 1u << FM_DW_RBP;
	(*n_tries)++;
	uint32_t err = fm_native_step(&stack, &caller, is_exact, &next_is_exact);
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
static uint32_t search(struct fm_remote *r, const struct fm_native_regs *regs, bool is_exact, unsigned *n_tries)
{
	const struct fm_native_stack stack = stack_of(r);
	size_t n_native = r->native.n;
	uint64_t sp = regs->r[FM_DW_RSP], pc = regs->pc - (is_exact ? 0 : 1), start = function_start(r, pc), ra, target;
	struct fm_unwind_rule rule = *fm_remote_images_rule(r->images, pc);
	if (rule.kind == FM_RULE_NONE || rule.cfa_reg != FM_DW_RBP) // as compilers do it where they tell nothing
		rule = (struct fm_unwind_rule){ .kind = FM_RULE_REG, .cfa_reg = FM_DW_RBP, .cfa_off = 16 };
	uint64_t size = fixed_size(r, &rule, start, pc), first_strong = 0;
	if (size && rule.kind == FM_RULE_REG && *n_tries < MAX_SURE_TRIES &&
	    fm_remote_u64(r->memory, sp + size - 8, &ra) && fm_native_is_return_address(&stack, ra, &target)) {
		if (try(r, regs, is_exact, sp + size - (uint64_t)rule.cfa_off, n_tries) == FM_NATIVE_END)
			return FM_NATIVE_END;
		take_back(r, n_native);
	}
	for (unsigned pass = 0; pass < 2; pass++) {
		for (uint64_t fp = sp; fp < sp + MAX_SEARCH_BYTES && *n_tries < MAX_TRIES; fp += 8) {
			uint64_t cfa = fp + (uint64_t)(int64_t)rule.cfa_off;
			if (rule.kind == FM_RULE_DEREF && (!fm_remote_u64(r->memory, cfa, &cfa) || cfa <= fp))
				continue;
			if (!fm_remote_u64(r->memory, cfa - 8, &ra))
				continue;
			if (!fm_native_is_return_address(&stack, ra, &target))
				continue;
			bool is_strong = target && start && through_plt(r, target) == start;
			if (pass == 0 ? !is_strong : target != 0)
				continue;
			if (is_strong && !first_strong)
				first_strong = fp;
			if (try(r, regs, is_exact, fp, n_tries) == FM_NATIVE_END)
				return FM_NATIVE_END;
			take_back(r, n_native);
		}
	}
	// The stack may be broken further out. Up to there it is right.
	return first_strong ? try(r, regs, is_exact, first_strong, n_tries) : FM_STACK_NO_UNWIND_INFO;
}

// As in sigsafe/unwind/x86_unwind.c: in the greenlet module, with no Python frame further out.
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

// From these registers to the outer end: FM_NATIVE_END or enum fm_stack_error.
static uint32_t walk(struct fm_remote *r, struct fm_native_regs regs, bool is_exact, unsigned *n_tries)
{
	const struct fm_native_stack stack = stack_of(r);
	for (;;) {
		if (regs.pc == 0)
			return FM_NATIVE_END; // a thread started on a hand-made stack ends so
		if (r->native.n == r->max_frames)
			return FM_STACK_TOO_DEEP;
		if (is_exact && r->native.n)
			r->precise_native = (uint32_t)r->native.n;
		fm_vec_push(&r->native, (struct fm_native_frame){ regs.pc, UINT64_MAX });
		bool next_is_exact;
		struct fm_native_regs caller = regs;
		uint32_t err = fm_native_step(&stack, &caller, is_exact, &next_is_exact);
		if (err == FM_NATIVE_NEEDS_FP)
			return search(r, &regs, is_exact, n_tries);
		if (err)
			return err;
		if (is_greenlet_base(r, regs.pc, caller.r[FM_DW_RSP])) {
			r->is_greenlet = true;
			return FM_NATIVE_END;
		}
		if (caller.pc) // the outermost frame owns the rest of the stack
			r->native.items[r->native.n - 1].cfa = caller.r[FM_DW_RSP];
		regs = caller;
		is_exact = next_is_exact;
	}
}

void fm_remote_unwind(struct fm_remote *r, const struct fm_remote_regs *at)
{
	struct fm_native_regs regs = { .pc = at->pc, .known = at->known };
	unsigned n_tries = 0;
	memcpy(regs.r, at->r, sizeof(regs.r));
	r->native.n = 0;
	r->native_sp = regs.r[FM_DW_RSP];
	r->precise_native = UINT32_MAX;
	r->is_greenlet = false;
	uint32_t err = walk(r, regs, true, &n_tries);
	r->native_error = err == FM_NATIVE_END ? 0 : err;
}
