// SPDX-License-Identifier: Apache-2.0
// PTRACE_SEIZE and PTRACE_INTERRUPT, which send no signal: nothing is left behind, and if we die,
// the kernel lets the thread go on.
#include "collect/remote/remote.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/repeatable.h"
#include "collect/process/proc.h"

bool fm_remote_may_stop(void)
{
	// Nobody is our tracee yet: where the call is allowed, it finds none.
	return ptrace(PTRACE_DETACH, getpid(), NULL, NULL) == 0 || errno == ESRCH;
}

// ---- threads that end while they are held ----

// A thread that we hold dies all the same, by the end of its process or another thread's exec. Its
// end is told to us first, and until we have taken notice that exec stands still, and its process
// does not end.
#define DYING_NAP_NS 100000l
#define DYING_MOST_NAPS 200 // 20 ms: it has been killed, and has nothing to do but end
#define LEADER_MOST_NAPS 10000
#define MAX_DYING 1024u

// Of the thread that traces them, as nobody else may wait for them.
static _Thread_local uint32_t dying[MAX_DYING];
static _Thread_local uint32_t n_dying;

static void nap(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = DYING_NAP_NS }, NULL);
}

// Another thread that has called exec may have got the number of one that died, and may have been
// told to stop.
static void let_go(uint32_t tid, int status)
{
	int signal = status >> 16 ? 0 : WSTOPSIG(status);
	ptrace(PTRACE_DETACH, (pid_t)tid, NULL, (void *)(intptr_t)signal);
}

static void take_notice(void)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < n_dying; i++) {
		int status;
		pid_t told = waitpid((pid_t)dying[i], &status, __WALL | __WNOTHREAD | WNOHANG);
		if (told > 0 && WIFSTOPPED(status))
			let_go(dying[i], status);
		else if (told == 0)
			dying[n++] = dying[i];
	}
	n_dying = n;
}

// A thread stops within microseconds where it gets a CPU. It may itself wait until notice is taken
// of others, and one that is calling exec forgets that it was told to stop.
#define QUICK_LOOKS 20
#define NAPS_TO_ASK_AGAIN 100

static pid_t wait_for(uint32_t tid, int *ret_status)
{
	pid_t told;
	for (int i = 0; (told = waitpid((pid_t)tid, ret_status, __WALL | WNOHANG)) == 0; i++) {
		if (i < QUICK_LOOKS) {
			sched_yield();
			continue;
		}
		nap();
		take_notice();
		if (i % NAPS_TO_ASK_AGAIN == 0)
			ptrace(PTRACE_INTERRUPT, (pid_t)tid, NULL, NULL);
	}
	return told;
}

static bool is_traced_by_us(uint32_t pid)
{
	char status[4096];
	size_t len = fm_process_read_proc(pid, "status", status, sizeof(status) - 1);
	status[len] = 0;
	const char *tracer = strstr(status, "\nTracerPid:");
	return tracer && strtol(tracer + strlen("\nTracerPid:"), NULL, 10) == syscall(SYS_gettid);
}

// A thread that was told to stop and has gone may have called exec: it goes on under its process's
// number, and is ours still.
static void let_leader_go(uint32_t pid)
{
	int status;
	for (int i = 0; i < LEADER_MOST_NAPS && is_traced_by_us(pid); i++) {
		pid_t told = waitpid((pid_t)pid, &status, __WALL | WNOHANG);
		if (told > 0 && WIFSTOPPED(status))
			let_go(pid, status);
		if (told != 0)
			return;
		if (i % NAPS_TO_ASK_AGAIN == 0)
			ptrace(PTRACE_INTERRUPT, (pid_t)pid, NULL, NULL);
		nap();
		take_notice();
	}
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

bool fm_remote_stop_begin(uint32_t tid, bool *ret_is_refused)
{
	*ret_is_refused = false;
	take_notice();
	if (ptrace(PTRACE_SEIZE, (pid_t)tid, NULL, NULL) != 0) {
		*ret_is_refused = errno == EPERM;
		return false;
	}
	if (ptrace(PTRACE_INTERRUPT, (pid_t)tid, NULL, NULL) == 0)
		return true;
	ptrace(PTRACE_DETACH, (pid_t)tid, NULL, NULL);
	return false;
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

bool fm_remote_stop_end(uint32_t pid, uint32_t tid, struct fm_remote_regs *ret_regs, struct fm_remote_call *ret_call)
{
	struct user_regs_struct regs;
	int status;
	if (wait_for(tid, &status) != (pid_t)tid) {
		let_leader_go(pid);
		return false;
	}
	if (!WIFSTOPPED(status))
		return false;
	// A signal of its own may have come first: it is given back, and the thread left alone this
	// time.
	bool is_ours = status >> 16 == PTRACE_EVENT_STOP && WSTOPSIG(status) == SIGTRAP;
	if (!is_ours || ptrace(PTRACE_GETREGS, (pid_t)tid, NULL, &regs) != 0) {
		let_go(tid, status);
		return false;
	}
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

bool fm_remote_stop_begin(uint32_t tid, bool *ret_is_refused)
{
	(void)tid;
	*ret_is_refused = false;
	return false;
}

bool fm_remote_stop_end(uint32_t pid, uint32_t tid, struct fm_remote_regs *ret_regs, struct fm_remote_call *ret_call)
{
	(void)pid;
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

bool fm_remote_stop(uint32_t pid, uint32_t tid, struct fm_remote_regs *ret_regs, struct fm_remote_call *ret_call,
		    bool *ret_is_refused)
{
	return fm_remote_stop_begin(tid, ret_is_refused) && fm_remote_stop_end(pid, tid, ret_regs, ret_call);
}

// "NUMBER ARGUMENT ..." while it sleeps there; "running" else.
bool fm_remote_is_in_transfer(uint32_t pid, uint32_t tid)
{
	char name[48], text[256];
	unsigned long nr, arg[4];
	snprintf(name, sizeof(name), "task/%u/syscall", tid);
	text[fm_process_read_proc(pid, name, text, sizeof(text) - 1)] = 0;
	if (sscanf(text, "%lu %lx %lx %lx %lx", &nr, &arg[0], &arg[1], &arg[2], &arg[3]) != 5)
		return false;
	switch (nr) {
	case SYS_write:
	case SYS_writev:
	case SYS_sendto:
	case SYS_sendmsg:
	case SYS_sendmmsg:
	case SYS_recvmmsg:
	case SYS_sendfile:
	case SYS_splice:
		return true;
	case SYS_recvfrom:
		return arg[3] & MSG_WAITALL;
	case SYS_recvmsg:
		return arg[2] & MSG_WAITALL;
	}
	return false;
}

bool fm_remote_has_stopped(uint32_t tid)
{
	siginfo_t info = { 0 };
	return waitid(P_PID, tid, &info, WSTOPPED | WEXITED | WNOHANG | WNOWAIT | __WALL) != 0 || info.si_pid != 0;
}

void fm_remote_go(uint32_t tid)
{
	if (ptrace(PTRACE_DETACH, (pid_t)tid, NULL, NULL) == 0)
		return;
	if (n_dying < MAX_DYING)
		dying[n_dying++] = tid;
	take_notice();
	for (int i = 0; i < DYING_MOST_NAPS && n_dying; i++) {
		nap();
		take_notice();
	}
}
