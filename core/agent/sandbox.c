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
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "agent/memory.h"
#include "agent/trace.h"
#include "base/compiler.h"
#include "sigsafe/base/quiet.h"
#include "sigsafe/base/state.h"

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59 // Linux 5.11
#endif
#ifndef PR_SYS_DISPATCH_ON
#define PR_SYS_DISPATCH_ON 1
#endif

// The ticker reads before each tick whether it is wanted. Two of the longest periods that it has
// while something runs.
#define LAST_TICK_NS 2000000

void fm_agent_sandbox_enter(void)
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
bool fm_agent_is_shut_in(long option, unsigned long how)
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
	if (fm_agent_is_shut_in(option, args[0]))
		fm_agent_sandbox_enter();
	return fn(option, args[0], args[1], args[2], args[3]);
}

OURS(prctl);

const struct fm_agent_hook fm_agent_sandbox_hooks[] = {
	HOOK(prctl),
#if defined(__x86_64__)
	{ "syscall", (void *)fm_agent_syscall, NULL },
#endif
	{ NULL, NULL, NULL },
};
