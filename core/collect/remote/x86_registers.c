// SPDX-License-Identifier: Apache-2.0
// Registers of a thread that is held, and the system call that they say it is in.
#include "collect/remote/parts.h"

#include <errno.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/user.h>

#include "base/repeatable.h"

#if defined(__x86_64__)

const bool fm_remote_knows_registers = true;

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

// A call that our stop cut short is made again, unless a signal's handler runs first: -ERESTARTNOHAND
// (linux/errno.h). The kernel does that by itself for most calls, but not for those that have EINTR
// for whoever stops a thread: epoll_wait, semop, a socket's with a timeout. The time they wait
// begins anew.
static void make_call_again(uint32_t tid, struct user_regs_struct *regs)
{
	if ((int64_t)regs->rax != -EINTR || !fm_call_is_repeatable(regs->orig_rax))
		return;
	regs->rax = (unsigned long long)-514;
	ptrace(PTRACE_SETREGS, (pid_t)tid, NULL, regs);
}

bool fm_remote_registers_stopped(uint32_t tid, struct fm_remote_regs *ret_regs, struct fm_remote_call *ret_call)
{
	struct user_regs_struct regs;
	if (ptrace(PTRACE_GETREGS, (pid_t)tid, NULL, &regs) != 0)
		return false;
	make_call_again(tid, &regs);
	take_registers(&regs, ret_regs, ret_call);
	return true;
}

bool fm_remote_registers(uint32_t tid, struct fm_remote_regs *ret_regs, struct fm_remote_call *ret_call)
{
	struct user_regs_struct regs;
	if (ptrace(PTRACE_GETREGS, (pid_t)tid, NULL, &regs) != 0)
		return false;
	take_registers(&regs, ret_regs, ret_call);
	return true;
}

bool fm_remote_registers_of(const void *registers, size_t len, struct fm_remote_regs *ret_regs,
			    struct fm_remote_call *ret_call)
{
	struct user_regs_struct regs;
	if (len != sizeof(regs))
		return false;
	memcpy(&regs, registers, sizeof(regs));
	take_registers(&regs, ret_regs, ret_call);
	return true;
}

// What the kernel has in rax between a system call that something interrupted and its restart
// (linux/errno.h; no header has them for programs): ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND,
// ERESTART_RESTARTBLOCK.
static bool would_restart(int64_t rax)
{
	return rax == -512 || rax == -513 || rax == -514 || rax == -516;
}

bool fm_remote_interrupt_call(uint32_t tid)
{
	struct user_regs_struct regs;
	if (ptrace(PTRACE_GETREGS, (pid_t)tid, NULL, &regs) != 0 || (int64_t)regs.orig_rax < 0 ||
	    !would_restart((int64_t)regs.rax))
		return false;
	regs.rax = (unsigned long long)-EINTR;
	regs.orig_rax = (unsigned long long)-1; // in no system call: nothing is restarted
	return ptrace(PTRACE_SETREGS, (pid_t)tid, NULL, &regs) == 0;
}

#else

// Nobody is stopped whose stack cannot be read then.
const bool fm_remote_knows_registers = false;

bool fm_remote_registers_stopped(uint32_t tid, struct fm_remote_regs *ret_regs, struct fm_remote_call *ret_call)
{
	(void)tid;
	(void)ret_regs;
	(void)ret_call;
	return false;
}

bool fm_remote_registers(uint32_t tid, struct fm_remote_regs *ret_regs, struct fm_remote_call *ret_call)
{
	(void)tid;
	(void)ret_regs;
	(void)ret_call;
	return false;
}

bool fm_remote_registers_of(const void *registers, size_t len, struct fm_remote_regs *ret_regs,
			    struct fm_remote_call *ret_call)
{
	(void)registers;
	(void)len;
	(void)ret_regs;
	(void)ret_call;
	return false;
}

bool fm_remote_interrupt_call(uint32_t tid)
{
	(void)tid;
	return false;
}

#endif
