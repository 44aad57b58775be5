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
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "collect/process/proc.h"
#include "collect/remote/parts.h"

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

bool fm_remote_stop_begin(uint32_t tid, bool *ret_is_refused)
{
	*ret_is_refused = false;
	if (!fm_remote_knows_registers)
		return false;
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

bool fm_remote_stop_end(uint32_t pid, uint32_t tid, struct fm_remote_regs *ret_regs, struct fm_remote_call *ret_call)
{
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
	if (!is_ours || !fm_remote_registers_stopped(tid, ret_regs, ret_call)) {
		let_go(tid, status);
		return false;
	}
	return true;
}

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
