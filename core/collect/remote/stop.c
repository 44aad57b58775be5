// SPDX-License-Identifier: Apache-2.0
// PTRACE_SEIZE and PTRACE_INTERRUPT, which send no signal: nothing is left behind, and if we die,
// the kernel lets the thread go on.
#include "collect/remote/remote.h"

#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

bool fm_remote_may_stop(void)
{
	// Nobody is our tracee yet: where the call is allowed, it finds none.
	return ptrace(PTRACE_DETACH, getpid(), NULL, NULL) == 0 || errno == ESRCH;
}

#if defined(__x86_64__)

static void take_registers(const struct user_regs_struct *u, struct fm_remote_regs *ret,
			   struct fm_remote_call *ret_call)
{
	const uint64_t r[16] = { u->rax, u->rdx, u->rcx, u->rbx, u->rsi, u->rdi, u->rbp, u->rsp,
				 u->r8,  u->r9,  u->r10, u->r11, u->r12, u->r13, u->r14, u->r15 };
	for (unsigned i = 0; i < 16; i++)
		ret->r[i] = r[i];
	ret->pc = u->rip;
	ret->known = 0xffff;
	*ret_call = (struct fm_remote_call){ .nr = (int64_t)u->orig_rax < 0 ? -1 : (int32_t)u->orig_rax,
					     .arg = { u->rdi } };
}

bool fm_remote_stop(uint32_t tid, struct fm_remote_regs *ret_regs, struct fm_remote_call *ret_call,
		    bool *ret_is_refused)
{
	struct user_regs_struct regs;
	int status;
	*ret_is_refused = false;
	if (ptrace(PTRACE_SEIZE, (pid_t)tid, NULL, NULL) != 0) {
		*ret_is_refused = errno == EPERM;
		return false;
	}
	if (ptrace(PTRACE_INTERRUPT, (pid_t)tid, NULL, NULL) != 0 ||
	    waitpid((pid_t)tid, &status, __WALL) != (pid_t)tid || !WIFSTOPPED(status)) {
		ptrace(PTRACE_DETACH, (pid_t)tid, NULL, NULL);
		return false;
	}
	// A signal of its own may have come first: it is given back, and the thread left alone this
	// time.
	bool is_ours = status >> 16 == PTRACE_EVENT_STOP && WSTOPSIG(status) == SIGTRAP;
	if (!is_ours || ptrace(PTRACE_GETREGS, (pid_t)tid, NULL, &regs) != 0) {
		int signal = status >> 16 ? 0 : WSTOPSIG(status);
		ptrace(PTRACE_DETACH, (pid_t)tid, NULL, (void *)(intptr_t)signal);
		return false;
	}
	take_registers(&regs, ret_regs, ret_call);
	return true;
}

#else

bool fm_remote_stop(uint32_t tid, struct fm_remote_regs *ret_regs, struct fm_remote_call *ret_call,
		    bool *ret_is_refused)
{
	(void)tid;
	(void)ret_regs;
	(void)ret_call;
	*ret_is_refused = false;
	return false;
}

#endif

void fm_remote_go(uint32_t tid)
{
	ptrace(PTRACE_DETACH, (pid_t)tid, NULL, NULL);
}
