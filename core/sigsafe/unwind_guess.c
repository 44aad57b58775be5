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

// True when ra is the address behind a call in a loaded image.
static FM_SIGSAFE bool is_return_address(struct fm_sig_thread *t, uint64_t ra)
{
	struct fm_sig_image_info image;
	if (!fm_sig_image_find(ra, &image) || ra - image.start < 8 || !fm_sig_readable(t, ra - 7, 7))
		return false;
	const uint8_t *before = (const uint8_t *)ra;
	bool is_call = before[-5] == 0xe8;	// call rel32
	for (int len = 2; len <= 7; len++)	// call *register, *memory
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

static FM_SIGSAFE bool try_return_at(struct fm_sig_thread *t, struct fm_sig_regs *regs, uint64_t at, uint64_t fp)
{
	uint64_t ra;
	if (!fm_sig_read_u64(t, at, &ra) || !is_return_address(t, ra))
		return false;
	step_to(regs, at + 8, fp, ra);
	return true;
}

// True when the function around pc sets up a frame pointer: push %rbp; mov %rsp, %rbp (two encodings) stands before pc. Without
// this test a function that has none would be stepped by its caller's, and the caller be lost without a word.
static FM_SIGSAFE bool has_frame_pointer(struct fm_sig_thread *t, uint64_t pc)
{
	struct fm_sig_image_info image;
	if (!fm_sig_image_find(pc, &image))
		return true; // generated code: no way to tell
	uint64_t lowest = pc - image.start > MAX_FUNCTION_BYTES ? pc - MAX_FUNCTION_BYTES : image.start + 4;
	for (uint64_t at = pc; at >= lowest; at--) {
		if (!fm_sig_readable(t, at - 4, 4))
			return false;
		const uint8_t *p = (const uint8_t *)(at - 4);
		if (p[0] == 0x55 && p[1] == 0x48 && ((p[2] == 0x89 && p[3] == 0xe5) || (p[2] == 0x8b && p[3] == 0xec)))
			return true;
	}
	return false;
}

// mov $15, %rax; syscall: how every libc returns from a signal handler. glibc describes its own; others do not.
static FM_SIGSAFE bool is_sigreturn(struct fm_sig_thread *t, uint64_t pc)
{
	if (!fm_sig_readable(t, pc, 9))
		return false;
	const uint8_t *p = (const uint8_t *)pc;
	return p[0] == 0x48 && p[1] == 0xc7 && p[2] == 0xc0 && p[3] == 15 && p[4] == 0 && p[5] == 0 && p[6] == 0 && p[7] == 0x0f &&
	       p[8] == 5;
}

// In its first and last instructions a function has no frame pointer of its own yet or any more.
static FM_SIGSAFE bool step_at_edge(struct fm_sig_thread *t, struct fm_sig_regs *regs)
{
	uint64_t pc = regs->r[FM_DW_RA], sp = regs->r[FM_DW_RSP], fp;
	if (!fm_sig_readable(t, pc - 1, 5))
		return false;
	const uint8_t *p = (const uint8_t *)pc;
	bool is_endbr = p[0] == 0xf3 && p[1] == 0x0f && p[2] == 0x1e && p[3] == 0xfa;
	if (p[0] == 0xc3 || p[0] == 0x55 || is_endbr)
		return try_return_at(t, regs, sp, regs->r[FM_DW_RBP]);
	if (p[-1] == 0x55 && p[0] == 0x48 && (p[1] == 0x89 || p[1] == 0x8b))
		return fm_sig_read_u64(t, sp, &fp) && try_return_at(t, regs, sp + 8, fp);
	return false;
}

FM_SIGSAFE uint32_t fm_sig_step_guess(struct fm_sig_thread *t, struct fm_sig_regs *regs, bool is_exact, bool *ret_is_exact)
{
	uint64_t sp = regs->r[FM_DW_RSP], fp = regs->r[FM_DW_RBP], pc = regs->r[FM_DW_RA], outer_fp;
	*ret_is_exact = false;
	if (is_sigreturn(t, pc)) {
		*ret_is_exact = true;
		return fm_sig_step_signal(t, regs);
	}
	if (is_exact && step_at_edge(t, regs))
		return 0;
	if (fm_sig_is_known(regs, FM_DW_RBP) && fp >= sp && !(fp & 7) && fp - sp <= FM_SIG_MAX_FRAME_BYTES &&
	    fm_sig_read_u64(t, fp, &outer_fp) && has_frame_pointer(t, pc) && try_return_at(t, regs, fp + 8, outer_fp))
		return 0;
	for (uint64_t at = sp; at < sp + 8 * N_WORDS_TO_SCAN; at += 8) {
		uint64_t ra;
		if (fm_sig_read_u64(t, at, &ra) && is_return_address(t, ra) && fm_sig_row_find(t, ra - 1)->kind == FM_SIG_ROW_REG) {
			step_to(regs, at + 8, fp, ra);
			return 0;
		}
	}
	if (!is_exact && !fm_sig_readable(t, pc - 1, 1))
		return FM_STACK_NOT_CODE;
	return FM_STACK_NO_UNWIND_INFO;
}

#endif
