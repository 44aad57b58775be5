// SPDX-License-Identifier: Apache-2.0
// The rest of a write. A blocking write to a pipe or a socket that a signal meets half way returns
// what it wrote so far; few programs look. The handler sends the thread here, outside of signal
// time, to write the rest as if nothing had happened.
#include "sigsafe/base/resume.h"

#include "sigsafe/base/sigsafe.h"

#if defined(__x86_64__)

// Kernel and compiler agree that a system call changes rax, rcx, r11 and the flags, nothing else:
// so does this. When the rest fails, or another signal of the program ends it, what was done until
// then is the answer, as it was for the first part. The number stands right before each call:
// fm_sig_restart_syscall finds it there when this is interrupted in turn.
#define RESUME(name, nr)                                                                    \
	__asm__(".pushsection fm_sigsafe, \"ax\", @progbits\n"                              \
		".globl " name "\n.hidden " name "\n.type " name ", @function\n" name ":\n" \
		"	.cfi_startproc\n"                                                         \
		"	.cfi_escape 0x0f, 3, 0x77, 16, 6\n" /* CFA = *(rsp + 16) */         \
		"	.cfi_escape 0x10, 16, 2, 0x77, 8\n" /* return address at rsp + 8 */ \
		"1:	movl $" nr ", %eax\n"                                               \
		"	syscall\n"                                                                \
		"	testq %rax, %rax\n"                                                       \
		"	jle 2f\n"                                                                 \
		"	addq %rax, (%rsp)\n"                                                      \
		"	addq %rax, %rsi\n"                                                        \
		"	subq %rax, %rdx\n"                                                        \
		"	jnz 1b\n"                                                                 \
		"2:	movq (%rsp), %rax\n"                                                    \
		"	subq %rax, %rsi\n"                                                        \
		"	addq %rax, %rdx\n"                                                        \
		"	movq 8(%rsp), %rcx\n"                                                     \
		"	movq 16(%rsp), %rsp\n"                                                    \
		"	.cfi_def_cfa %rsp, 0\n"                                                   \
		"	.cfi_register %rip, %rcx\n"                                               \
		"	jmp *%rcx\n"                                                              \
		"	.cfi_endproc\n"                                                           \
		".size " name ", . - " name "\n"                                            \
		".popsection\n")

// Three in one section, in this order: fm_sig_is_resuming compares with the first and the last.
RESUME("fm_sig_resume_write", "1");
RESUME("fm_sig_resume_sendto", "44");
__asm__(".pushsection fm_sigsafe, \"ax\", @progbits\n"
	".globl fm_sig_resume_end\n.hidden fm_sig_resume_end\nfm_sig_resume_end:\n	nop\n"
	".popsection\n");

#endif
