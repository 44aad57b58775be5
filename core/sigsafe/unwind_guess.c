// Stepping where no unwind information is: code that was compiled without it follows its frame pointer, if it has one; some
// start-up code has its return address near the top of the stack. What cannot be shown to be right is not taken.
#include "sigsafe/unwind_step.h"

#include "format/model.h"
#include "sigsafe/image.h"
#include "sigsafe/raw.h"

#include "sigsafe/sigsafe.h"

#if defined(__x86_64__)

// Where start-up code (_init, frame_dummy and the like) may keep its return address.
#define N_WORDS_TO_SCAN 3
// How far back a function's beginning is looked for. Longer functions than this end in an error frame.
#define MAX_FUNCTION_BYTES 32768
// Functions that end in a jump to another one and were replaced by it on the stack are mostly short.
#define MAX_TAIL_CALLER_BYTES 64
// Instructions that take a frame down: one for each register that a call preserves, and some.
#define MAX_EPILOGUE 12

FM_SIGSAFE bool fm_sig_is_return_address(struct fm_sig_thread *t, uint64_t ra)
{
	struct fm_sig_image_info image;
	if (fm_sig_image_find(ra, &image) ? ra - image.start < 8 : !fm_sig_is_run_time_code(ra - 8))
		return false;
	if (!fm_sig_readable(t, ra - 7, 7))
		return false;
	const uint8_t *before = (const uint8_t *)ra;
	bool is_call = before[-5] == 0xe8; // call rel32
	for (int len = 2; len <= 7; len++) // call *register, *memory
		is_call |= before[-len] == 0xff && (before[-len + 1] & 0x38) == 0x10;
	return is_call;
}

static FM_SIGSAFE void step_to(struct fm_sig_regs *regs, uint64_t sp, uint64_t fp, uint64_t ra)
{
	regs->r[FM_DW_RSP] = sp;
	regs->r[FM_DW_RBP] = fp;
	regs->r[FM_DW_RA] = ra;
	regs->known = 1u << FM_DW_RSP | 1u << FM_DW_RBP | 1u << FM_DW_RA; // where it saved the others is not known
}

// mov $15, %rax; syscall: how every libc returns from a signal handler. glibc describes its own; others do not.
static FM_SIGSAFE bool is_sigreturn(struct fm_sig_thread *t, uint64_t pc)
{
	if (!fm_sig_readable(t, pc, 9))
		return false;
	const uint8_t *p = (const uint8_t *)pc;
	return p[0] == 0x48 && p[1] == 0xc7 && p[2] == 0xc0 && p[3] == 15 && p[4] == 0 && p[5] == 0 && p[6] == 0 &&
	       p[7] == 0x0f && p[8] == 5;
}

FM_SIGSAFE bool fm_sig_is_start_context(struct fm_sig_thread *t, uint64_t pc, unsigned ahead)
{
	// mov %rbx, %rsp; mov (%rsp), %rdi; test %rdi, %rdi. With shadow stacks other instructions come first.
	static const uint8_t code[] = { 0x48, 0x89, 0xdc, 0x48, 0x8b, 0x3c, 0x24, 0x48, 0x85, 0xff };
	uint64_t start = pc - 26, end = pc + ahead + sizeof(code);
	if (!fm_sig_readable(t, start, end - start))
		return false;
	for (; start + sizeof(code) <= end; start++) {
		unsigned n = 0;
		while (n < sizeof(code) && ((const uint8_t *)start)[n] == code[n])
			n++;
		if (n == sizeof(code))
			return true;
	}
	return false;
}

static FM_SIGSAFE bool try_return_at(struct fm_sig_thread *t, struct fm_sig_regs *regs, uint64_t at, uint64_t fp)
{
	uint64_t ra;
	if (!fm_sig_read_u64(t, at, &ra) ||
	    (!fm_sig_is_return_address(t, ra) && !is_sigreturn(t, ra) && !fm_sig_is_start_context(t, ra, 48)))
		return false;
	step_to(regs, at + 8, fp, ra);
	return true;
}

// Where a call or jump to target ends up: at target, or where its PLT entry leads. 0: not known.
static FM_SIGSAFE uint64_t through_plt(struct fm_sig_thread *t, uint64_t target)
{
	uint64_t bound;
	if (!fm_sig_readable(t, target, 12))
		return 0;
	const uint8_t *p = (const uint8_t *)target;
	if (p[0] == 0xf3 && p[1] == 0x0f && p[2] == 0x1e && p[3] == 0xfa)
		p += 4; // endbr64
	if (p[0] == 0xf2)
		p++;                      // bnd
	if (p[0] != 0xff || p[1] != 0x25) // jmp *slot(%rip)
		return target;
	return fm_sig_read_u64(t, (uint64_t)p + 6 + (uint64_t)(int64_t) * (const int32_t *)(p + 2), &bound) ? bound : 0;
}

// True when [start, end) has mov %rsp, %rbp (in one of its two encodings), with which a frame begins.
static FM_SIGSAFE bool has_prologue(struct fm_sig_thread *t, uint64_t start, uint64_t end)
{
	for (uint64_t at = end; at >= start + 3; at--) {
		if (!fm_sig_readable(t, at - 3, 3))
			return false;
		const uint8_t *p = (const uint8_t *)(at - 3);
		if (p[0] == 0x48 && ((p[1] == 0x89 && p[2] == 0xe5) || (p[1] == 0x8b && p[2] == 0xec)))
			return true;
	}
	return false;
}

// True when code before pc sets up frame pointers. Without this test a function that has none would be stepped by its caller's,
// and the caller be lost without a word.
static FM_SIGSAFE bool has_frame_pointer(struct fm_sig_thread *t, uint64_t pc)
{
	struct fm_sig_image_info image;
	if (!fm_sig_image_find(pc, &image))
		return true; // generated code: no way to tell
	return has_prologue(t, pc - image.start > MAX_FUNCTION_BYTES ? pc - MAX_FUNCTION_BYTES : image.start, pc);
}

// True when a function that begins at start holds pc and has set up no frame by then.
static FM_SIGSAFE bool is_frameless(struct fm_sig_thread *t, uint64_t start, uint64_t pc)
{
	return start && start <= pc && pc - start < MAX_FUNCTION_BYTES && !has_prologue(t, start, pc);
}

// The start of the function that holds pc, when the call before ra leads there: at once, or by one more jump (a tail call). 0: it
// does not, or has a frame of its own by now.
static FM_SIGSAFE uint64_t called_function(struct fm_sig_thread *t, uint64_t ra, uint64_t pc)
{
	if (!fm_sig_readable(t, ra - 5, 5) || *(const uint8_t *)(ra - 5) != 0xe8)
		return 0; // calls of pointers lead anywhere
	uint64_t start = through_plt(t, ra + (uint64_t)(int64_t) * (const int32_t *)(ra - 4));
	if (is_frameless(t, start, pc))
		return start;
	if (!start || !fm_sig_readable(t, start, MAX_TAIL_CALLER_BYTES + 5))
		return 0;
	for (uint64_t at = start; at < start + MAX_TAIL_CALLER_BYTES; at++) {
		if (*(const uint8_t *)at != 0xe9)
			continue;
		uint64_t next = through_plt(t, at + 5 + (uint64_t)(int64_t) * (const int32_t *)(at + 1));
		if (is_frameless(t, next, pc))
			return next;
	}
	return 0;
}

// A leaf function does without a frame even where others have one, and any function before it has set up its own. Taken for one
// when the stack's top (or what lies below a pushed rbp) is a return address and the call before it leads to this function.
static FM_SIGSAFE bool step_from_leaf(struct fm_sig_thread *t, struct fm_sig_regs *regs)
{
	uint64_t pc = regs->r[FM_DW_RA], sp = regs->r[FM_DW_RSP], fp = regs->r[FM_DW_RBP], ra;
	for (unsigned n_pushed = 0; n_pushed < 2; n_pushed++) {
		uint64_t start;
		if (!fm_sig_read_u64(t, sp + 8 * n_pushed, &ra) || !fm_sig_is_return_address(t, ra) ||
		    !(start = called_function(t, ra, pc)))
			continue;
		if (n_pushed) {
			const uint8_t *p = (const uint8_t *)start; // readable: a PLT entry was looked for there
			if ((p[0] != 0x55 && p[4] != 0x55) || pc == start || !fm_sig_read_u64(t, sp, &fp))
				continue;
		}
		return try_return_at(t, regs, sp + 8 * n_pushed, fp);
	}
	return false;
}

// In its first and last instructions a function has no frame pointer of its own yet or any more, and PLT entries never have one.
static FM_SIGSAFE bool step_at_edge(struct fm_sig_thread *t, struct fm_sig_regs *regs)
{
	uint64_t pc = regs->r[FM_DW_RA], sp = regs->r[FM_DW_RSP], fp = regs->r[FM_DW_RBP];
	if (!fm_sig_readable(t, pc - 6, 12))
		return false;
	const uint8_t *p = (const uint8_t *)pc;
	bool is_endbr = p[0] == 0xf3 && p[1] == 0x0f && p[2] == 0x1e && p[3] == 0xfa;
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
	if (p[0] == 0x48 && !fm_sig_read_u64(t, sp, &fp))
		return false;
	return try_return_at(t, regs, sp + 8 * n_pushed, fp);
}

// Stubs of generated code (CPython's perf trampolines) end right behind their call: the frame is taken down, and ret. What is left to
// be executed then tells how large the frame is.
static FM_SIGSAFE bool step_by_epilogue(struct fm_sig_thread *t, struct fm_sig_regs *regs)
{
	uint64_t pc = regs->r[FM_DW_RA], at = regs->r[FM_DW_RSP], fp = regs->r[FM_DW_RBP];
	for (unsigned n = 0; n < MAX_EPILOGUE && fm_sig_readable(t, pc, 8); n++) {
		const uint8_t *p = (const uint8_t *)pc;
		if (p[0] == 0xc3)
			return try_return_at(t, regs, at, fp);
		if (p[0] == 0x48 && p[1] == 0x83 && p[2] == 0xc4 && p[3] < 0x80) { // add $imm8, %rsp
			at += p[3];
			pc += 4;
		} else if (p[0] == 0x48 && p[1] == 0x81 && p[2] == 0xc4 && p[6] < 0x80) { // add $imm32, %rsp
			at += *(const uint32_t *)(pc + 3);
			pc += 7;
		} else if (p[0] == 0x5d) { // pop %rbp
			if (!fm_sig_read_u64(t, at, &fp))
				return false;
			at += 8;
			pc += 1;
		} else if ((p[0] >= 0x58 && p[0] <= 0x5f && p[0] != 0x5c) ||
			   (p[0] == 0x41 && p[1] >= 0x58 && p[1] <= 0x5f)) { // other pops
			at += 8;
			pc += p[0] == 0x41 ? 2 : 1;
		} else {
			return false;
		}
	}
	return false;
}

FM_SIGSAFE uint32_t fm_sig_step_guess(struct fm_sig_thread *t, struct fm_sig_regs *regs, bool is_exact,
				      bool *ret_is_exact)
{
	uint64_t sp = regs->r[FM_DW_RSP], fp = regs->r[FM_DW_RBP], pc = regs->r[FM_DW_RA], outer_fp;
	struct fm_sig_image_info image;
	*ret_is_exact = false;
	if (is_sigreturn(t, pc)) {
		*ret_is_exact = true;
		return fm_sig_step_signal(t, regs);
	}
	if (fm_sig_is_start_context(t, pc, 48))
		return FM_SIG_STEP_END;
	bool is_generated = !fm_sig_image_find(pc, &image);
	if (is_generated && step_by_epilogue(t, regs))
		return 0;
	// The loader's entry, where every program begins: of all the loader it alone has no tables.
	if (!is_generated && fm_sig.tls_helper_start - image.start < image.end - image.start)
		return FM_SIG_STEP_END;
	if (is_exact && (step_at_edge(t, regs) || step_from_leaf(t, regs)))
		return 0;
	if (fm_sig_is_known(regs, FM_DW_RBP) && fp >= sp && !(fp & 7) && fp - sp <= FM_SIG_MAX_FRAME_BYTES &&
	    fm_sig_read_u64(t, fp, &outer_fp) && has_frame_pointer(t, pc) && try_return_at(t, regs, fp + 8, outer_fp))
		return 0;
	// Not for generated code: its frames are no smaller than others, and what lies there may be left over from an older call.
	for (uint64_t at = sp; at < sp + 8 * N_WORDS_TO_SCAN && !is_generated; at += 8) {
		uint64_t ra;
		if (fm_sig_read_u64(t, at, &ra) && fm_sig_is_return_address(t, ra) &&
		    fm_sig_row_find(t, ra - 1)->kind == FM_SIG_ROW_REG) {
			step_to(regs, at + 8, fp, ra);
			return 0;
		}
	}
	if (!is_exact && !fm_sig_readable(t, pc - 1, 1))
		return FM_STACK_NOT_CODE;
	return FM_STACK_NO_UNWIND_INFO;
}

#endif
