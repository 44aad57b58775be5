// SPDX-License-Identifier: Apache-2.0
// A program that puts itself into a sandbox: from then on a filter decides over each of its system
// calls, and may end it for one that it does not list. Samples and hooks make system calls, and the
// return from a signal handler is one. So this process leaves the capture before its filter stands.
// A filter that was there when the program began (a container's) is none of that: whoever wrote it
// knows that programs of all kinds run behind it.
//
// The same is done for a program that has its system calls delivered as signals, or the cycle
// counter forbidden, which each sample reads.
//
// Seen is what goes through libc, as libseccomp does; not a bare instruction of the program's. What
// stands in front of syscall() for that sees handlers that are set by number, too.
#include "agent/agent.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/memory.h"
#include "agent/trace.h"
#include "base/compiler.h"
#include "sigsafe/base/quiet.h"
#include "sigsafe/base/raw.h"
#include "sigsafe/base/state.h"
#include "sigsafe/tick/handlers.h"
#include "sigsafe/tick/restart.h"

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59 // Linux 5.11
#endif
#ifndef PR_SYS_DISPATCH_ON
#define PR_SYS_DISPATCH_ON 1
#endif

// The ticker reads before each tick whether it is wanted. Two of the longest periods that it has
// while something runs.
#define LAST_TICK_NS 2000000

static void leave(void)
{
	if (fm_sig.header)
		fm_agent_exec_leave();
	// A child of vfork has its parent's memory, and leaves nothing of the parent's.
	if (!fm_sig.header || !fm_sig.process || (uint32_t)getpid() != fm_sig.pid ||
	    atomic_exchange(&fm_sig.process->engine, FM_ENGINE_NONE) == FM_ENGINE_NONE)
		return;
	int saved_errno = errno;
	atomic_fetch_add(&fm_sig.counts->n_sandboxed, 1);
	fm_trace_end();
	fm_sig_quiet_end();
	nanosleep(&(struct timespec){ .tv_nsec = LAST_TICK_NS }, NULL);
	fm_agent_give_signals_back();
	errno = saved_errno;
}

// What ends a program for a system call or an instruction of ours.
static bool is_shut_in(long option, unsigned long how)
{
	return option == PR_SET_SECCOMP || (option == PR_SET_TSC && how == PR_TSC_SIGSEGV) ||
	       (option == PR_SET_SYSCALL_USER_DISPATCH && how == PR_SYS_DISPATCH_ON);
}

typedef int (*prctl_fn)(int, unsigned long, unsigned long, unsigned long, unsigned long);

FM_EXPORT int prctl(int option, ...)
{
	static _Atomic(prctl_fn) real;
	prctl_fn fn = atomic_load_explicit(&real, memory_order_relaxed);
	if (!fn) {
		fn = (prctl_fn)fm_agent_next_symbol("prctl");
		atomic_store_explicit(&real, fn, memory_order_relaxed);
	}
	if (!fn) {
		errno = ENOSYS;
		return -1;
	}
	unsigned long args[4]; // as many as there may be; libc passes on what nobody gave, too
	va_list list;
	va_start(list, option);
	for (unsigned i = 0; i < 4; i++)
		args[i] = va_arg(list, unsigned long);
	va_end(list);
	if (is_shut_in(option, args[0]))
		leave();
	return fn(option, args[0], args[1], args[2], args[3]);
}

OURS(prctl);

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
	if (is_filter || (number == SYS_prctl && is_shut_in(operation, (unsigned long)flags)))
		leave();
	return atomic_load_explicit(&real_syscall, memory_order_relaxed);
}

_Static_assert(SYS_prctl == 157 && SYS_seccomp == 317 && SYS_rt_sigaction == 13, "as the comparisons below have them");

extern long fm_agent_syscall(long number, ...);
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
#endif

#if !defined(__x86_64__)
void fm_agent_syscall_resolve(void)
{
}
#endif

const struct fm_agent_hook fm_agent_sandbox_hooks[] = {
	HOOK(prctl),
#if defined(__x86_64__)
	{ "syscall", (void *)fm_agent_syscall, NULL },
#endif
	{ NULL, NULL, NULL },
};
