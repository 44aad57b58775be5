// SPDX-License-Identifier: Apache-2.0
// The rest of a call. A blocking write to a pipe or a socket that a signal meets half way returns
// what it wrote so far, and so do getrandom, reads of /dev/zero and its kin, copies from file to
// file, and a recv that is to wait for all; few programs look. The handler sends the thread here,
// outside of signal time, to do the rest as if nothing had happened.
#include "sigsafe/base/resume.h"

#include <sys/socket.h>

#include "sigsafe/base/sigsafe.h"

#if defined(__x86_64__)

// Kernel and compiler agree that a system call changes rax, rcx, r11 and the flags, nothing else:
// so does this. When the rest fails, or another signal of the program ends it, what was done until
// then is the answer, as it was for the first part. A handler of the program's that ran meanwhile
// has cleared rcx (fm_sig_mark_interrupted): its signal ends the call, however much was done. The
// number stands right before each call: fm_sig_restart_syscall finds it there when this is
// interrupted in turn.
#define BEGIN(name)                                                                 \
	".pushsection fm_sigsafe, \"ax\", @progbits\n"                              \
	".globl " name "\n.hidden " name "\n.type " name ", @function\n" name ":\n" \
	"	.cfi_startproc\n"                                                         \
	"	.cfi_escape 0x0f, 3, 0x77, 16, 6\n" /* CFA = *(rsp + 16) */         \
	"	.cfi_escape 0x10, 16, 2, 0x77, 8\n" /* return address at rsp + 8 */
// With the socket's error found first the next call of the program finds it, as it would have
// without us; so it must not come while our call waits. poll's own answer to a signal is one, too.
#define WAIT                       \
	"1:	cmpw $0, 84(%rsp)\n"   \
	"	je 5f\n"                 \
	"	movq %rdi, 96(%rsp)\n"   \
	"	movq %rsi, 104(%rsp)\n"  \
	"	movq %rdx, 112(%rsp)\n"  \
	"	leaq 80(%rsp), %rdi\n"   \
	"	movl $1, %esi\n"         \
	"	movq $-1, %rdx\n"        \
	"	movl $7, %eax\n"         \
	"	syscall\n"               \
	"	movq 96(%rsp), %rdi\n"   \
	"	movq 104(%rsp), %rsi\n"  \
	"	movq 112(%rsp), %rdx\n"  \
	"	testq %rax, %rax\n"      \
	"	jle 2f\n"                \
	"	movzwl 86(%rsp), %eax\n" \
	"	testq %rax, 88(%rsp)\n"  \
	"	jnz 2f\n"                \
	"5:\n"
#define CALL(nr)                      \
	WAIT "	movl $" nr ", %eax\n" \
	     "	syscall\n"             \
	     "	testq %rax, %rax\n"    \
	     "	jle 2f\n"              \
	     "	addq %rax, (%rsp)\n"
#define MORE                  \
	"	jz 2f\n"            \
	"	testq %rcx, %rcx\n" \
	"	jnz 1b\n"
#define END(name)                        \
	"	movq 8(%rsp), %rcx\n"          \
	"	movq 16(%rsp), %rsp\n"         \
	"	.cfi_def_cfa %rsp, 0\n"        \
	"	.cfi_register %rip, %rcx\n"    \
	"	jmp *%rcx\n"                   \
	"	.cfi_endproc\n"                \
	".size " name ", . - " name "\n" \
	".popsection\n"

#define RESUME(name, nr, at, len)                                                           \
	__asm__(BEGIN(name) CALL(nr) "	addq %rax, " at "\n"                                \
				     "	subq %rax, " len "\n" MORE "2:	movq (%rsp), %rax\n" \
				     "	subq %rax, " at "\n"                                \
				     "	addq %rax, " len "\n" END(name))

// Of several pieces: the rest of the one that was cut, and then one after the other of those behind
// it, from 24(%rsp) on and as many as 32(%rsp) says.
#define RESUME_PIECES(name, nr)                               \
	__asm__(BEGIN(name) CALL(nr) "	addq %rax, %rsi\n"     \
				     "	subq %rax, %rdx\n"     \
				     "	jz 3f\n"               \
				     "	testq %rcx, %rcx\n"    \
				     "	jnz 1b\n"              \
				     "	jmp 2f\n"              \
				     "3:	subq $1, 32(%rsp)\n" \
				     "	jb 2f\n"               \
				     "	movq 24(%rsp), %rcx\n" \
				     "	addq $16, 24(%rsp)\n"  \
				     "	movq (%rcx), %rsi\n"   \
				     "	movq 8(%rcx), %rdx\n"  \
				     "	testq %rdx, %rdx\n"    \
				     "	jz 3b\n"               \
				     "	jmp 1b\n"              \
				     "2:	movq (%rsp), %rax\n" \
				     "	movq 40(%rsp), %rsi\n" \
				     "	movq 48(%rsp), %rdx\n" \
				     "	movq 56(%rsp), %r10\n" \
				     "	movq 64(%rsp), %r8\n"  \
				     "	movq 72(%rsp), %r9\n" END(name))

// All in one section, in this order: fm_sig_is_resuming compares with the first and the last.
RESUME("fm_sig_resume_write", "1", "%rsi", "%rdx");
RESUME("fm_sig_resume_sendto", "44", "%rsi", "%rdx");
RESUME("fm_sig_resume_read", "0", "%rsi", "%rdx");
RESUME("fm_sig_resume_recvfrom", "45", "%rsi", "%rdx");
RESUME("fm_sig_resume_getrandom", "318", "%rdi", "%rsi");
RESUME_PIECES("fm_sig_resume_writev", "1");
RESUME_PIECES("fm_sig_resume_sendmsg", "44");
RESUME_PIECES("fm_sig_resume_readv", "0");
RESUME_PIECES("fm_sig_resume_recvmsg", "45");

// These count messages, of 64 bytes each. When a signal ended it after some of them, the kernel has
// kept that for the next recvmmsg, which fails by it before it does anything: EINTR, or a number
// that no program is to see, ERESTARTSYS.
#define RESUME_MESSAGES(name, nr)                                                 \
	__asm__(BEGIN(name) "1:	movl $" nr ", %eax\n"                             \
			    "	syscall\n"                                          \
			    "	testq %rax, %rax\n"                                 \
			    "	jg 3f\n"                                            \
			    "	cmpq $-512, %rax\n"                                 \
			    "	je 4f\n"                                            \
			    "	cmpq $-4, %rax\n"                                   \
			    "	jne 2f\n"                                           \
			    "4:	testq %rcx, %rcx\n"                               \
			    "	jnz 1b\n"                                           \
			    "	jmp 2f\n"                                           \
			    "3:	addq %rax, (%rsp)\n"                              \
			    "	subl %eax, %edx\n"                                  \
			    "	shlq $6, %rax\n"                                    \
			    "	addq %rax, %rsi\n"                                  \
			    "	testl %edx, %edx\n" MORE "2:	movq (%rsp), %rax\n" \
			    "	addl %eax, %edx\n"                                  \
			    "	movq %rax, %r11\n"                                  \
			    "	shlq $6, %r11\n"                                    \
			    "	subq %r11, %rsi\n" END(name))
static_assert(sizeof(struct mmsghdr) == 64, "as the shifts above have it");
RESUME_MESSAGES("fm_sig_resume_sendmmsg", "307");
RESUME_MESSAGES("fm_sig_resume_recvmmsg", "299");

// A connection is waited for again. One that is still under way when the time is up is EALREADY
// to the second call, and would have been EINPROGRESS to the first.
__asm__(BEGIN("fm_sig_resume_connect") "	movl $42, %eax\n"
				       "	syscall\n"
				       "	cmpq $-114, %rax\n"
				       "	jne 2f\n"
				       "	movq $-115, %rax\n"
				       "2:\n" END("fm_sig_resume_connect"));

// The kernel moves the offsets itself.
__asm__(BEGIN("fm_sig_resume_copy_file_range") CALL("326") "	subq %rax, %r8\n" MORE "2:	movq (%rsp), %rax\n"
							   "	addq %rax, %r8\n" END("fm_sig_resume_copy_file_range"));
__asm__(BEGIN("fm_sig_resume_sendfile") CALL("40") "	subq %rax, %r10\n" MORE "2:	movq (%rsp), %rax\n"
						   "	addq %rax, %r10\n" END("fm_sig_resume_sendfile"));
__asm__(".pushsection fm_sigsafe, \"ax\", @progbits\n"
	".globl fm_sig_resume_end\n.hidden fm_sig_resume_end\nfm_sig_resume_end:\n	nop\n"
	".popsection\n");

#endif
