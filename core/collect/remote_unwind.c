// Stepping up the native stack of a thread that sleeps. It is like sigsafe/unwind.c with two differences: memory is another process's, and
// of the registers only the stack pointer and the pc are known at first. Frames that save the others give them back on the way; where a
// frame counts from one that is still unknown, its place is searched for on the stack.
#include <string.h>
#include <ucontext.h>

#include "collect/remote_parts.h"
#include "format/model.h"
#include "image/unwind_row.h"

enum { DW_RBX = 3, DW_RBP = 6, DW_RSP = 7 };

// No real frame is larger; a CFA that jumps further is damage.
#define MAX_FRAME_BYTES (64ull << 20)
// How far up a frame with an unknown frame pointer is searched, and how long a function may be.
#define MAX_SEARCH_BYTES 16384u
#define MAX_FUNCTION_BYTES (1u << 20)

#define STEP_END UINT32_MAX

struct regs {
	uint64_t r[FM_RULE_N_REGS];
	uint64_t pc;
	uint32_t known;
};

static bool is_known(const struct regs *regs, unsigned reg)
{
	return regs->known >> reg & 1;
}

// True when ra is the address behind a call. *ret_target: where it leads; 0 = not known (a pointer).
static bool is_return_address(struct fm_remote *r, uint64_t ra, uint64_t *ret_target)
{
	uint8_t code[8];
	*ret_target = 0;
	if (ra < 8 || !fm_remote_images_is_code(r->images, ra - 1) || !fm_remote_read(r->memory, ra - 7, code, 7))
		return false;
	if (code[2] == 0xe8) { // call rel32
		int32_t off;
		memcpy(&off, code + 3, sizeof(off));
		*ret_target = ra + (uint64_t)(int64_t)off;
		return fm_remote_images_is_code(r->images, *ret_target);
	}
	for (int len = 2; len <= 7; len++) // call *register, *memory
		if (code[7 - len] == 0xff && (code[8 - len] & 0x38) == 0x10)
			return true;
	return false;
}

// Where a call leads in the end: a PLT entry jumps on.
static uint64_t through_plt(struct fm_remote *r, uint64_t target)
{
	uint8_t code[12];
	uint64_t bound;
	int32_t off;
	if (!fm_remote_read(r->memory, target, code, sizeof(code)))
		return 0;
	unsigned at = code[0] == 0xf3 && code[1] == 0x0f && code[2] == 0x1e && code[3] == 0xfa ? 4 : 0; // endbr64
	at += code[at] == 0xf2;                                                                         // bnd
	if (code[at] != 0xff || code[at + 1] != 0x25) // jmp *slot(%rip)
		return target;
	memcpy(&off, code + at + 2, sizeof(off));
	return fm_remote_u64(r->memory, target + at + 6 + (uint64_t)(int64_t)off, &bound) ? bound : 0;
}

// True when a call of target may be in the function of pc: it begins below, and there a frame begins.
static bool may_hold(struct fm_remote *r, uint64_t target, uint64_t pc)
{
	target = through_plt(r, target);
	if (!target || target > pc || pc - target > MAX_FUNCTION_BYTES)
		return false;
	const struct fm_unwind_rule *rule = fm_remote_images_rule(r->images, target);
	return rule->kind == FM_RULE_REG && rule->cfa_reg == DW_RSP && rule->cfa_off == 8;
}

// The frame pointer of a frame whose CFA is counted from it: the first place from the stack pointer up that holds a pointer further up
// and, above it, a return address of a call that leads to this function. A call by pointer leads anywhere: it is taken if no other is found.
static bool search_frame_pointer(struct fm_remote *r, const struct regs *regs, const struct fm_unwind_rule *rule,
				 uint64_t *ret)
{
	uint64_t sp = regs->r[DW_RSP], ra, target, saved, second = 0;
	if (rule->kind != FM_RULE_REG || rule->cfa_reg != DW_RBP || rule->saved[DW_RBP] == FM_RULE_LOST)
		return false;
	for (uint64_t fp = sp; fp < sp + MAX_SEARCH_BYTES; fp += 8) {
		uint64_t cfa = fp + (uint64_t)(int64_t)rule->cfa_off;
		if (cfa <= sp || !fm_remote_u64(r->memory, cfa - 8, &ra))
			break;
		if (!is_return_address(r, ra, &target))
			continue;
		if (target && may_hold(r, target, regs->pc)) {
			*ret = fp;
			return true;
		}
		bool is_chained = fm_remote_u64(r->memory, fp, &saved) && saved > fp && saved - fp < MAX_FRAME_BYTES;
		if (!target && !second && is_chained)
			second = fp;
	}
	*ret = second;
	return second != 0;
}

// Rows of run-time code, which the collector has published for the agent.
static void published_rule(const struct fm_remote *r, uint64_t pc, struct fm_unwind_rule *rule)
{
	const struct fm_shared *shared = r->shared;
	if (!shared)
		return;
	const struct fm_wire_row_image *images = (const void *)(shared->base + FM_WIRE_ROW_IMAGES_OFFSET);
	const struct fm_unwind_row *rows = (const void *)(shared->base + FM_WIRE_ROWS_OFFSET);
	uint32_t n = atomic_load(&shared->header->n_row_images);
	for (uint32_t i = 0; i < n && i < FM_WIRE_N_ROW_IMAGES; i++) {
		const struct fm_wire_row_image *e = &images[i];
		if (atomic_load(&e->process_idx1) != r->process_idx + 1 || e->flags != FM_WIRE_ROWS_OF_CODE ||
		    pc < e->start || pc >= e->end || !e->n_rows)
			continue;
		uint64_t low = e->first_row, high = low + e->n_rows;
		while (high - low > 1) {
			uint64_t mid = low + (high - low) / 2;
			if (rows[mid].addr <= pc - e->bias)
				low = mid;
			else
				high = mid;
		}
		const struct fm_unwind_row *row = &rows[low];
		if (row->kind == FM_UNWIND_GAP || row->addr > pc - e->bias)
			continue;
		rule->kind = row->kind == FM_UNWIND_REG     ? FM_RULE_REG
			     : row->kind == FM_UNWIND_DEREF ? FM_RULE_DEREF
							    : FM_RULE_END;
		rule->is_guessed = row->flags & FM_UNWIND_GUESSED;
		rule->cfa_reg = row->cfa_reg & 15;
		rule->cfa_off = row->cfa_off;
		for (unsigned reg = 0; reg < FM_RULE_N_REGS; reg++)
			rule->saved[reg] = FM_RULE_LOST;
		if (!(row->flags & FM_UNWIND_LOST_RBP))
			rule->saved[DW_RBP] = row->rbp_off == FM_UNWIND_AT_RBP ? FM_RULE_AT_RBP : row->rbp_off;
		if (!(row->flags & FM_UNWIND_LOST_RBX))
			rule->saved[DW_RBX] = row->rbx_off;
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
	if (!fm_remote_read(r->memory, regs->r[DW_RSP] + offsetof(ucontext_t, uc_mcontext), &context.gregs,
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

// By the frame pointer, where nothing else is known and it leads to a return address.
static uint32_t step_guess(struct fm_remote *r, struct regs *regs)
{
	uint64_t sp = regs->r[DW_RSP], fp = regs->r[DW_RBP], ra, outer, target;
	if (!is_known(regs, DW_RBP) || fp < sp || (fp & 7) || fp - sp > MAX_FRAME_BYTES ||
	    !fm_remote_u64(r->memory, fp, &outer) || !fm_remote_u64(r->memory, fp + 8, &ra) ||
	    !is_return_address(r, ra, &target))
		return FM_STACK_NO_UNWIND_INFO;
	regs->r[DW_RSP] = fp + 16;
	regs->r[DW_RBP] = outer;
	regs->pc = ra;
	regs->known = 1u << DW_RSP | 1u << DW_RBP;
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
	if (!is_known(regs, rule.cfa_reg)) {
		uint64_t fp;
		if (!search_frame_pointer(r, regs, &rule, &fp))
			return FM_STACK_BAD_UNWIND_INFO;
		regs->r[DW_RBP] = fp;
		regs->known |= 1u << DW_RBP;
	}
	cfa = regs->r[rule.cfa_reg] + (uint64_t)(int64_t)rule.cfa_off;
	if (rule.kind == FM_RULE_DEREF && !fm_remote_u64(r->memory, cfa, &cfa))
		return FM_STACK_UNREADABLE;
	if (cfa <= regs->r[DW_RSP] || cfa - regs->r[DW_RSP] > MAX_FRAME_BYTES || (cfa & 7))
		return FM_STACK_BAD_CFA;
	if (!fm_remote_u64(r->memory, cfa - 8, &ra))
		return FM_STACK_UNREADABLE;
	if (rule.is_guessed && !is_return_address(r, ra, &target))
		return step_guess(r, regs);
	struct regs caller = { .pc = ra, .known = 1u << DW_RSP };
	for (unsigned reg = 0; reg < FM_RULE_N_REGS; reg++) {
		int32_t off = rule.saved[reg];
		if (reg == DW_RSP || off == FM_RULE_LOST || (off == FM_RULE_SAME && !is_known(regs, reg)))
			continue;
		caller.r[reg] = regs->r[reg];
		if (off != FM_RULE_SAME) {
			uint64_t at = off == FM_RULE_AT_RBP ? regs->r[DW_RBP] : cfa + (uint64_t)(int64_t)off;
			if ((off == FM_RULE_AT_RBP && !is_known(regs, DW_RBP)) ||
			    !fm_remote_u64(r->memory, at, &caller.r[reg]))
				continue;
		}
		caller.known |= 1u << reg;
	}
	caller.r[DW_RSP] = cfa;
	*regs = caller;
	return 0;
}

void fm_remote_unwind(struct fm_remote *r, const struct fm_remote_regs *at)
{
	struct regs regs = { .pc = at->pc, .known = at->known };
	memcpy(regs.r, at->r, sizeof(regs.r));
	bool is_exact = true;
	uint32_t err = 0;
	r->native.n = 0;
	r->native_sp = regs.r[DW_RSP];
	r->exact_native = UINT32_MAX;
	while (!err) {
		if (r->native.n == FM_REMOTE_MAX_FRAMES) {
			err = FM_STACK_TOO_DEEP;
			break;
		}
		fm_vec_push(&r->native, (struct fm_remote_native){ regs.pc, UINT64_MAX });
		bool next_is_exact;
		err = step(r, &regs, is_exact, &next_is_exact);
		if (!err && regs.pc == 0)
			err = STEP_END;
		if (!err)
			r->native.items[r->native.n - 1].cfa = regs.r[DW_RSP];
		is_exact = next_is_exact;
		if (!err && is_exact)
			r->exact_native = (uint32_t)r->native.n;
	}
	r->native_error = err == STEP_END ? 0 : err;
}
