// SPDX-License-Identifier: Apache-2.0
// Stacks that perf copied (--call-graph dwarf), followed by our own unwinder (image/native_step.h)
// and the files' own unwind information.
#include "import/perf_data.h"

#include <string.h>

#include "image/dwarf_regs.h"
#include "image/native_step.h"

// perf copies at most 64 KiB, and a frame has at least a return address.
#define MAX_FRAMES 8192u
#define ABI_64 2u // PERF_SAMPLE_REGS_ABI_64

struct dump {
	struct fm_perf_stacks *s;
	struct fm_perf_process *p;
	const struct fm_perf_sample *sample;
	uint64_t sp;
	const struct fm_native_regs *regs; // of the frame whose rule is asked for
	bool is_over_end;                  // something behind the end of the copy was wanted
};

// The image of a pc, opened; NULL where no file is.
static struct fm_perf_map *mapped(struct dump *d, uint64_t pc)
{
	struct fm_perf_map *map = fm_perf_process_find(d->p, pc);
	if (!map)
		return NULL;
	fm_perf_image_open(&d->s->images, map->image, d->s->in);
	return map->image->file ? map : NULL;
}

static bool dump_read(void *ctx, uint64_t addr, void *to, size_t len)
{
	struct dump *d = ctx;
	const struct fm_perf_sample *sample = d->sample;
	if (addr >= d->sp && addr - d->sp < sample->stack_bytes && len <= sample->stack_bytes - (addr - d->sp)) {
		memcpy(to, sample->stack + (addr - d->sp), len);
		return true;
	}
	struct fm_perf_map *map = mapped(d, addr);
	if (map)
		return fm_unwind_file_read(map->image->file, fm_perf_image_address(map, addr), to, len);
	d->is_over_end |= addr >= d->sp && addr - d->sp < FM_NATIVE_MAX_FRAME_BYTES;
	return false;
}

static bool dump_is_code(void *ctx, uint64_t pc)
{
	const struct dump *d = ctx;
	uint64_t start;
	return fm_perf_process_find(d->p, pc) || fm_perf_jit_name(d->p, pc, &start).len;
}

static bool dump_is_bare(void *ctx, uint64_t pc)
{
	return !mapped(ctx, pc);
}

// CPython's perf trampolines describe themselves nowhere. Each one moves the stack pointer by eight
// bytes, with a push of the frame pointer or without, and calls.
static void trampoline_rule(const struct fm_native_regs *regs, struct fm_unwind_rule *ret)
{
	*ret = (struct fm_unwind_rule){ .kind = FM_RULE_REG, .cfa_reg = FM_DW_RSP, .cfa_off = 16 };
	for (unsigned reg = 0; reg < FM_RULE_N_REGS; reg++)
		ret->saved[reg] = FM_DW_CALLEE_SAVED >> reg & 1 ? FM_RULE_SAME : FM_RULE_LOST;
	bool is_pushed = fm_native_knows(regs, FM_DW_RBP) && regs->r[FM_DW_RBP] == regs->r[FM_DW_RSP];
	ret->saved[FM_DW_RBP] = is_pushed ? -16 : FM_RULE_SAME;
}

static void dump_rule(void *ctx, uint64_t pc, struct fm_unwind_rule *ret)
{
	struct dump *d = ctx;
	struct fm_perf_map *map = mapped(d, pc);
	uint64_t start;
	if (map)
		*ret = *fm_perf_image_rule(map->image, fm_perf_image_address(map, pc));
	else if (fm_str_starts_with(fm_perf_jit_name(d->p, pc, &start), "py::"))
		trampoline_rule(d->regs, ret);
	else
		*ret = (struct fm_unwind_rule){ .kind = FM_RULE_NONE };
}

// perf's order of the registers, by DWARF number; the pc is its ninth.
static void take_regs(const struct fm_perf_sample *sample, struct fm_native_regs *ret)
{
	static const int8_t dwarf_of_perf[] = { 0,  3,  2,  1,  4, 5, 6,  7,  -1, -1, -1, -1,
						-1, -1, -1, -1, 8, 9, 10, 11, 12, 13, 14, 15 };
	uint64_t mask = sample->attr->regs_user;
	*ret = (struct fm_native_regs){ 0 };
	for (unsigned i = 0, n = 0; i < 64; i++) {
		if (!(mask >> i & 1))
			continue;
		uint64_t value = fm_perf_u64(sample->regs, n++);
		if (i == 8)
			ret->pc = value;
		int reg = i < sizeof(dwarf_of_perf) ? dwarf_of_perf[i] : -1;
		if (reg >= 0) {
			ret->r[reg] = value;
			ret->known |= 1u << reg;
		}
	}
}

static void push_end(struct fm_perf_stacks *s, const struct dump *d, uint32_t why)
{
	s->n_dumps++;
	if (why == FM_NATIVE_END)
		return;
	if (d->is_over_end)
		s->n_cut++;
	else
		s->n_failed++;
	if (why == FM_NATIVE_NEEDS_FP)
		why = FM_STACK_NO_UNWIND_INFO;
	fm_vec_push(&s->frames, fm_writer_frame(s->in->w, FM_FRAME_ERROR, 0, why));
}

void fm_perf_unwind(struct fm_perf_stacks *s, struct fm_perf_process *p, const struct fm_perf_sample *sample)
{
	struct fm_native_regs regs;
	take_regs(sample, &regs);
	struct dump d = { s, p, sample, regs.r[FM_DW_RSP], &regs, false };
	const struct fm_native_stack stack = { &d, dump_read, dump_is_code, dump_is_bare, dump_rule };
	bool is_exact = true, is_foreign = s->file->arch.len && !fm_str_eq(s->file->arch, FM_STR_LIT("x86_64"));
	uint32_t why = is_foreign || sample->regs_abi != ABI_64 ? FM_STACK_NO_UNWIND_INFO : 0;
	if (why)
		fm_vec_push(&s->frames, fm_perf_user_frame(s, p, regs.pc));
	for (size_t n = 0; !why; n++) {
		if (n == MAX_FRAMES) {
			why = FM_STACK_TOO_DEEP;
			break;
		}
		fm_vec_push(&s->frames, fm_perf_user_frame(s, p, regs.pc - (is_exact ? 0 : 1)));
		bool next_is_exact;
		why = fm_native_step(&stack, &regs, is_exact, &next_is_exact);
		is_exact = next_is_exact;
		if (!why && !regs.pc) // a thread that began on a hand-made stack ends so
			why = FM_NATIVE_END;
	}
	push_end(s, &d, why);
}
