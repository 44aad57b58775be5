// SPDX-License-Identifier: Apache-2.0
// Stepping where no unwind information is: code that was compiled without it follows its frame
// pointer, if it has one; some start-up code has its return address near the top of the stack. What
// cannot be shown to be right is not taken.
#include "sigsafe/unwind/step.h"

#include "format/model.h"
#include "image/x86_code.h"
#include "sigsafe/unwind/image.h"
#include "sigsafe/base/raw.h"

#include "sigsafe/base/sigsafe.h"

#if defined(__x86_64__)

// Where start-up code (_init, frame_dummy and the like) may keep its return address.
#define N_WORDS_TO_SCAN 3
// How far back a function's beginning is looked for. Longer functions than this end in an error
// frame.
#define MAX_FUNCTION_BYTES 32768
// Functions that end in a jump to another one and were replaced by it on the stack are mostly
// short.
#define MAX_TAIL_CALLER_BYTES 64
// Instructions that take a frame down: one for each register that a call preserves, and some.
#define MAX_EPILOGUE 12

FM_SIGSAFE bool fm_sig_is_return_address(uint64_t ra)
{
	struct fm_sig_image_info image;
	if (fm_sig_image_find(ra, &image) ? ra - image.start < 8 : !fm_sig_is_run_time_code(ra - 8))
		return false;
	uint8_t before[FM_X86_CALL_BYTES];
	uint64_t target;
	if (!fm_sig_read(ra - sizeof(before), before, sizeof(before)))
		return false;
	const uint8_t *behind = before + sizeof(before);
	return fm_x86_is_near_call(behind, ra, &target) || fm_x86_is_pointer_call(behind);
}

static FM_SIGSAFE void step_to(struct fm_sig_regs *regs, uint64_t sp, uint64_t fp, uint64_t ra)
{
	regs->r[FM_DW_RSP] = sp;
	regs->r[FM_DW_RBP] = fp;
	regs->r[FM_DW_RA] = ra;
	regs->known = 1u << FM_DW_RSP | 1u << FM_DW_RBP | 1u << FM_DW_RA; // where it saved the others is not known
}

// mov $15, %rax; syscall: how every libc returns from a signal handler. glibc describes its own;
// others do not.
static FM_SIGSAFE bool is_sigreturn(uint64_t pc)
{
	uint8_t p[9];
	return fm_sig_read(pc, p, sizeof(p)) && p[0] == 0x48 && p[1] == 0xc7 && p[2] == 0xc0 && p[3] == 15 &&
	       p[4] == 0 && p[5] == 0 && p[6] == 0 && p[7] == 0x0f && p[8] == 5;
}

// How far before and behind a return address glibc's __start_context has the instructions that it
// is known by.
#define START_CONTEXT_BEHIND 26u
#define START_CONTEXT_AHEAD 48u

FM_SIGSAFE bool fm_sig_is_start_context(uint64_t pc, unsigned ahead)
{
	// mov %rbx, %rsp; mov (%rsp), %rdi; test %rdi, %rdi. With shadow stacks other instructions
	// come first.
	static const uint8_t code[] = { 0x48, 0x89, 0xdc, 0x48, 0x8b, 0x3c, 0x24, 0x48, 0x85, 0xff };
	uint8_t near[START_CONTEXT_BEHIND + START_CONTEXT_AHEAD + sizeof(code)];
	unsigned len = START_CONTEXT_BEHIND + FM_MIN(ahead, START_CONTEXT_AHEAD) + sizeof(code);
	if (!fm_sig_read(pc - START_CONTEXT_BEHIND, near, len))
		return false;
	for (unsigned start = 0; start + sizeof(code) <= len; start++) {
		unsigned n = 0;
		while (n < sizeof(code) && near[start + n] == code[n])
			n++;
		if (n == sizeof(code))
			return true;
	}
	return false;
}

static FM_SIGSAFE bool try_return_at(struct fm_sig_regs *regs, uint64_t at, uint64_t fp)
{
	uint64_t ra;
	if (!fm_sig_read_u64(at, &ra) ||
	    (!fm_sig_is_return_address(ra) && !is_sigreturn(ra) && !fm_sig_is_start_context(ra, START_CONTEXT_AHEAD)))
		return false;
	step_to(regs, at + 8, fp, ra);
	return true;
}

// Where a call or jump to target ends up: at target, or where its PLT entry leads. 0: not known.
static FM_SIGSAFE uint64_t through_plt(uint64_t target)
{
	uint64_t slot, bound;
	uint8_t code[FM_X86_PLT_BYTES];
	if (!fm_sig_read(target, code, sizeof(code)))
		return 0;
	if (!fm_x86_is_plt(code, target, &slot))
		return target;
	return fm_sig_read_u64(slot, &bound) ? bound : 0;
}

// True when [start, end) has mov %rsp, %rbp (in one of its two encodings), with which a frame
// begins.
static FM_SIGSAFE bool has_prologue(uint64_t start, uint64_t end)
{
	for (uint64_t at = end; at >= start + 3; at--) {
		uint16_t last;
		uint8_t first;
		if (!fm_sig_read_u16(at - 2, &last))
			return false;
		if ((last == 0xe589 || last == 0xec8b) && fm_sig_read_u8(at - 3, &first) && first == 0x48)
			return true;
	}
	return false;
}

// True when code before pc sets up frame pointers. Without this test a function that has none would
// be stepped by its caller's, and the caller be lost without a word.
static FM_SIGSAFE bool has_frame_pointer(uint64_t pc)
{
	struct fm_sig_image_info image;
	if (!fm_sig_image_find(pc, &image))
		return true; // generated code: no way to tell
	return has_prologue(pc - image.start > MAX_FUNCTION_BYTES ? pc - MAX_FUNCTION_BYTES : image.start, pc);
}

// True when a function that begins at start holds pc and has set up no frame by then.
static FM_SIGSAFE bool is_frameless(uint64_t start, uint64_t pc)
{
	return start && start <= pc && pc - start < MAX_FUNCTION_BYTES && !has_prologue(start, pc);
}

// The start of the function that holds pc, when the call before ra leads there: at once, or by one
// more jump (a tail call). 0: it does not, or has a frame of its own by now.
static FM_SIGSAFE uint64_t called_function(uint64_t ra, uint64_t pc)
{
	uint8_t op;
	uint32_t distance;
	if (!fm_sig_read_u8(ra - 5, &op) || op != 0xe8 || !fm_sig_read_u32(ra - 4, &distance))
		return 0; // calls of pointers lead anywhere
	uint64_t start = through_plt(ra + (uint64_t)(int64_t)(int32_t)distance);
	if (is_frameless(start, pc))
		return start;
	if (!start)
		return 0;
	for (uint64_t at = start; at < start + MAX_TAIL_CALLER_BYTES; at++) {
		if (!fm_sig_read_u8(at, &op) || !fm_sig_read_u32(at + 1, &distance))
			return 0;
		if (op != 0xe9)
			continue;
		uint64_t next = through_plt(at + 5 + (uint64_t)(int64_t)(int32_t)distance);
		if (is_frameless(next, pc))
			return next;
	}
	return 0;
}

// A leaf function does without a frame even where others have one, and any function before it has
// set up its own. Taken for one when the stack's top (or what lies below a pushed rbp) is a return
// address and the call before it leads to this function.
static FM_SIGSAFE bool step_from_leaf(struct fm_sig_regs *regs)
{
	uint64_t pc = regs->r[FM_DW_RA], sp = regs->r[FM_DW_RSP], fp = regs->r[FM_DW_RBP], ra;
	for (unsigned n_pushed = 0; n_pushed < 2; n_pushed++) {
		uint64_t start;
		if (!fm_sig_read_u64(sp + 8 * n_pushed, &ra) || !fm_sig_is_return_address(ra) ||
		    !(start = called_function(ra, pc)))
			continue;
		if (n_pushed) {
			uint8_t p[5];
			if (!fm_sig_read(start, p, sizeof(p)) || (p[0] != 0x55 && p[4] != 0x55) || pc == start ||
			    !fm_sig_read_u64(sp, &fp))
				continue;
		}
		return try_return_at(regs, sp + 8 * n_pushed, fp);
	}
	return false;
}

// In its first and last instructions a function has no frame pointer of its own yet or any more,
// and PLT entries never have one.
static FM_SIGSAFE bool step_at_edge(struct fm_sig_regs *regs)
{
	uint64_t pc = regs->r[FM_DW_RA], sp = regs->r[FM_DW_RSP], fp = regs->r[FM_DW_RBP];
	uint8_t around[12], *p = around + 6;
	if (!fm_sig_read(pc - 6, around, sizeof(around)))
		return false;
	bool is_endbr = fm_x86_is_endbr64(p);
	bool is_jump = p[0] == 0xff && p[1] == 0x25;
	unsigned n_pushed;
	if (is_jump && p[-6] == 0xff && p[-5] == 0x35) // the PLT's first entry: push link map; jmp *resolver
		n_pushed = 2;
	else if ((p[0] == 0xff && p[1] == 0x35) || (p[0] == 0xe9 && p[-5] == 0x68)) // there; after push index
		n_pushed = 1;
	else if (p[-1] == 0x55 && p[0] == 0x48 && (p[1] == 0x89 || p[1] == 0x8b)) // after push %rbp
		n_pushed = 1;
	else if (p[0] == 0xc3 || p[0] == 0x55 || is_endbr || is_jump || (p[0] == 0x68 && p[5] == 0xe9))
		n_pushed = 0;
	else
		return false;
	if (p[0] == 0x48 && !fm_sig_read_u64(sp, &fp))
		return false;
	return try_return_at(regs, sp + 8 * n_pushed, fp);
}

// Stubs of generated code (CPython's perf trampolines) end right behind their call: the frame is
// taken down, and ret. What is left to be executed then tells how large the frame is.
static FM_SIGSAFE bool step_by_epilogue(struct fm_sig_regs *regs)
{
	uint64_t pc = regs->r[FM_DW_RA], at = regs->r[FM_DW_RSP], fp = regs->r[FM_DW_RBP];
	uint8_t p[FM_X86_EPILOGUE_BYTES];
	for (unsigned n = 0; n < MAX_EPILOGUE && fm_sig_read(pc, p, sizeof(p)); n++) {
		struct fm_x86_epilogue e;
		unsigned len = fm_x86_epilogue_step(p, &e);
		if (e.is_ret)
			return try_return_at(regs, at, fp);
		if (!len || (e.pops_rbp && !fm_sig_read_u64(at, &fp)))
			return false;
		at += e.n_popped;
		pc += len;
	}
	return false;
}

FM_SIGSAFE uint32_t fm_sig_step_guess(struct fm_sig_thread *t, struct fm_sig_regs *regs, bool is_exact,
				      bool *ret_is_exact)
{
	uint64_t sp = regs->r[FM_DW_RSP], fp = regs->r[FM_DW_RBP], pc = regs->r[FM_DW_RA], outer_fp;
	struct fm_sig_image_info image;
	*ret_is_exact = false;
	if (is_sigreturn(pc)) {
		*ret_is_exact = true;
		return fm_sig_step_signal(regs);
	}
	if (fm_sig_is_start_context(pc, START_CONTEXT_AHEAD))
		return FM_SIG_STEP_END;
	bool is_generated = !fm_sig_image_find(pc, &image);
	if (is_generated && step_by_epilogue(regs))
		return 0;
	// The loader's entry, where every program begins: of all the loader it alone has no tables.
	if (!is_generated && fm_sig.tls_helper_start - image.start < image.end - image.start)
		return FM_SIG_STEP_END;
	if (is_exact && (step_at_edge(regs) || step_from_leaf(regs)))
		return 0;
	if (fm_sig_is_known(regs, FM_DW_RBP) && fp >= sp && !(fp & 7) && fp - sp <= FM_SIG_MAX_FRAME_BYTES &&
	    fm_sig_read_u64(fp, &outer_fp) && has_frame_pointer(pc) && try_return_at(regs, fp + 8, outer_fp))
		return 0;
	// Not for generated code: its frames are no smaller than others, and what lies there may be
	// left over from an older call.
	for (uint64_t at = sp; at < sp + 8 * N_WORDS_TO_SCAN && !is_generated; at += 8) {
		uint64_t ra;
		if (fm_sig_read_u64(at, &ra) && fm_sig_is_return_address(ra) &&
		    fm_sig_row_find(t, ra - 1)->kind == FM_SIG_ROW_REG) {
			step_to(regs, at + 8, fp, ra);
			return 0;
		}
	}
	uint8_t byte;
	if (!is_exact && !fm_sig_read_u8(pc - 1, &byte))
		return FM_STACK_NOT_CODE;
	return FM_STACK_NO_UNWIND_INFO;
}

#endif
