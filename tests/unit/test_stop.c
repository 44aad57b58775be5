// SPDX-License-Identifier: Apache-2.0
// What a program notices of a thread that was held: a child of two threads, whose main one is held.
#include "collect/remote/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "collect/process/proc.h"
#include "test.h"

#define WAIT_MS 20000

static int to_child[2], from_child[2];

static void say(char what)
{
	CHECK(write(from_child[1], &what, 1) == 1);
}

// 0: nothing was said in time.
static char hear(void)
{
	struct pollfd fd = { .fd = from_child[0], .events = POLLIN };
	char what = 0;
	return poll(&fd, 1, WAIT_MS) == 1 && read(from_child[0], &what, 1) == 1 ? what : 0;
}

static pid_t start(void (*program)(void))
{
	CHECK(pipe2(to_child, O_CLOEXEC) == 0 && pipe2(from_child, O_CLOEXEC) == 0);
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		program();
		_exit(0);
	}
	close(from_child[1]);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, __WALL) == pid)
		;
	close(to_child[0]);
	close(to_child[1]);
	close(from_child[0]);
}

static void wait_until_it_sleeps(pid_t pid)
{
	for (int i = 0; i < WAIT_MS && fm_process_state((uint32_t)pid, (uint32_t)pid) != 'S'; i++)
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

static bool hold(pid_t pid, uint32_t tid)
{
	struct fm_remote_regs regs;
	struct fm_remote_call call;
	bool is_refused;
	return fm_remote_stop((uint32_t)pid, tid, &regs, &call, &is_refused);
}

static void wait_in_epoll(void)
{
	struct epoll_event event;
	int fd = epoll_create1(EPOLL_CLOEXEC);
	int n = epoll_wait(fd, &event, 1, 300);
	say(n == 0 ? 'e' : errno == EINTR ? 'i' : '?');
}

TEST(a_call_that_is_not_made_again_by_the_kernel_is_not_cut_short)
{
	pid_t pid = start(wait_in_epoll);
	wait_until_it_sleeps(pid);
	CHECK(hold(pid, (uint32_t)pid));
	fm_remote_go((uint32_t)pid);
	CHECK_EQ(hear(), 'e');
	end(pid);
}

static void on_signal(int sig)
{
	(void)sig;
}

static void wait_for_signal(void)
{
	sigaction(SIGUSR1, &(struct sigaction){ .sa_handler = on_signal }, NULL);
	wait_in_epoll();
}

TEST(a_signal_of_the_programs_own_cuts_it_short)
{
	pid_t pid = start(wait_for_signal);
	wait_until_it_sleeps(pid);
	CHECK(hold(pid, (uint32_t)pid));
	kill(pid, SIGUSR1);
	fm_remote_go((uint32_t)pid);
	CHECK_EQ(hear(), 'i');
	end(pid);
}

static void *wait_for_end(void *arg)
{
	(void)arg;
	uint32_t tid = (uint32_t)syscall(SYS_gettid);
	CHECK(write(from_child[1], &tid, sizeof(tid)) == sizeof(tid));
	while (pause())
		;
	return NULL;
}

// Becomes a program that reads a byte and says it.
static void exec_when_told(void)
{
	pthread_t thread;
	char byte;
	pthread_create(&thread, NULL, wait_for_end, NULL);
	if (read(to_child[0], &byte, 1) != 1 || dup2(to_child[0], 0) != 0 || dup2(from_child[1], 1) != 1)
		return;
	execl("/bin/sh", "sh", "-c", "echo x", (char *)NULL);
}

// Its exec ends the other thread, and waits until whoever holds that has taken notice.
TEST(a_program_that_calls_exec_while_a_thread_is_held_goes_on)
{
	uint32_t tid;
	pid_t pid = start(exec_when_told);
	CHECK(read(from_child[0], &tid, sizeof(tid)) == sizeof(tid));
	CHECK(hold(pid, tid));
	CHECK(write(to_child[1], "x", 1) == 1);
	for (int i = 0; i < WAIT_MS && fm_process_state((uint32_t)pid, tid) == 't'; i++)
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	fm_remote_go(tid);
	CHECK_EQ(hear(), 'x');
	end(pid);
}

TEST_MAIN()
