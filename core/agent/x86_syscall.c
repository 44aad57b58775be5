// SPDX-License-Identifier: Apache-2.0
// What stands in front of syscall(): it sees filters of system calls (sandbox.c) and handlers that are
// set by number.
#include "agent/agent.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "agent/memory.h"
#include "sigsafe/base/raw.h"
#include "sigsafe/base/state.h"
#include "sigsafe/tick/handlers.h"
#include "sigsafe/tick/restart.h"

#if defined(__x86_64__)

// syscall() uses no stack: what forks or changes stacks must find the caller's frame where it was.
// Few instructions for all but the first call and these three numbers. Where libc's is behind it the
// call is made here: its number is nowhere any more when a tick has ended it, and lies below the
// stack pointer, in the red zone, for who makes it again (sigsafe/tick/x86_restart.c).
__attribute__((used)) static _Atomic(void *) real_syscall;
__attribute__((used)) static _Atomic bool is_libcs_syscall;
extern const char fm_agent_syscall_made[] __attribute__((visibility("hidden")));

__attribute__((used)) static long syscall_failed(long ret)
{
	errno = (int)-ret;
	return -1;
}

void fm_agent_syscall_resolve(void)
{
	void *real = fm_agent_next_symbol("syscall");
	atomic_store_explicit(&real_syscall, real, memory_order_relaxed);
	fm_sig_own_syscall = (uintptr_t)fm_agent_syscall_made;
	atomic_store_explicit(&is_libcs_syscall,
			      (uintptr_t)real - fm_sig.libc_start < fm_sig.libc_end - fm_sig.libc_start,
			      memory_order_release);
}

// A handler that is set by number, as runtimes do that bring their own sigaction(). The signal is
// one that we hold: as with libc's, the program has it to itself.
static long set_handler_by_number(long number, long sig, const struct fm_sig_kernel_action *act,
				  struct fm_sig_kernel_action *old, size_t mask_bytes)
{
	struct sigaction wanted = { 0 }, before;
	(void)number;
	if (mask_bytes != sizeof(act->mask)) {
		errno = EINVAL;
		return -1;
	}
	if (act) {
		wanted.sa_handler = (void (*)(int))act->handler;
		wanted.sa_flags = (int)act->flags;
		memcpy(&wanted.sa_mask, &act->mask, sizeof(act->mask));
	}
	if (sigaction((int)sig, act ? &wanted : NULL, &before) != 0)
		return -1;
	if (old) {
		*old = (struct fm_sig_kernel_action){
			.handler = (uint64_t)before.sa_handler,
			.flags = (uint32_t)before.sa_flags,
			.restorer = (uint64_t)before.sa_restorer,
		};
		memcpy(&old->mask, &before.sa_mask, sizeof(old->mask));
	}
	return 0;
}

__attribute__((used)) static void *before_syscall(long number, long operation, long flags, long filter)
{
	if (number == SYS_rt_sigaction && operation > 0 && operation < NSIG && fm_sig_is_held((int)operation))
		return (void *)set_handler_by_number;
	if (!atomic_load_explicit(&real_syscall, memory_order_relaxed))
		fm_agent_syscall_resolve();
	// libseccomp asks whether there are filters by giving none.
	bool is_filter = number == SYS_seccomp && (operation == SECCOMP_SET_MODE_STRICT ||
						   (operation == SECCOMP_SET_MODE_FILTER && filter != 0));
	if (is_filter || (number == SYS_prctl && fm_agent_is_shut_in(operation, (unsigned long)flags)))
		fm_agent_sandbox_enter();
	return atomic_load_explicit(&real_syscall, memory_order_relaxed);
}

_Static_assert(SYS_prctl == 157 && SYS_seccomp == 317 && SYS_rt_sigaction == 13, "as the comparisons below have them");

__asm__(".pushsection .text\n"
	".globl fm_agent_syscall\n"
	".hidden fm_agent_syscall\n"
	".type fm_agent_syscall, @function\n"
	".globl syscall\n"
	".type syscall, @function\n"
	"syscall:\n"
	"fm_agent_syscall:\n"
	".cfi_startproc\n"
	"	movq real_syscall(%rip), %rax\n"
	"	testq %rax, %rax\n"
	"	je 1f\n"
	"	cmpq $157, %rdi\n"
	"	je 1f\n"
	"	cmpq $317, %rdi\n"
	"	je 1f\n"
	"	cmpq $13, %rdi\n"
	"	je 1f\n"
	"	cmpb $0, is_libcs_syscall(%rip)\n"
	"	jne 2f\n"
	"	jmp *%rax\n"
	"2:	movq %rdi, -8(%rsp)\n"
	"	movq %rdi, %rax\n"
	"	movq %rsi, %rdi\n"
	"	movq %rdx, %rsi\n"
	"	movq %rcx, %rdx\n"
	"	movq %r8, %r10\n"
	"	movq %r9, %r8\n"
	"	movq 8(%rsp), %r9\n"
	"	syscall\n"
	".globl fm_agent_syscall_made\n"
	".hidden fm_agent_syscall_made\n"
	"fm_agent_syscall_made:\n"
	"	cmpq $-4095, %rax\n"
	"	jae 3f\n"
	"	ret\n"
	"3:	movq %rax, %rdi\n"
	"	jmp syscall_failed\n"
	"1:	pushq %rdi\n"
	"	pushq %rsi\n"
	"	pushq %rdx\n"
	"	pushq %rcx\n"
	"	pushq %r8\n"
	"	pushq %r9\n"
	"	subq $8, %rsp\n"
	".cfi_adjust_cfa_offset 56\n"
	"	call before_syscall\n"
	"	addq $8, %rsp\n"
	"	popq %r9\n"
	"	popq %r8\n"
	"	popq %rcx\n"
	"	popq %rdx\n"
	"	popq %rsi\n"
	"	popq %rdi\n"
	".cfi_adjust_cfa_offset -56\n"
	"	jmp *%rax\n"
	".cfi_endproc\n"
	".size fm_agent_syscall, . - fm_agent_syscall\n"
	".size syscall, . - syscall\n"
	".popsection\n");

#else

void fm_agent_syscall_resolve(void)
{
}

#endif
