// SPDX-License-Identifier: Apache-2.0
#include "test.h"

#include "collect/process/sandbox.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <unistd.h>

#define STATUS(mode, n) "Name:\tx\nSeccomp:\t" #mode "\nSeccomp_filters:\t" #n "\nThreads:\t1\n"
#define OLD_STATUS(mode) "Name:\tx\nSeccomp:\t" #mode "\nThreads:\t1\n"

TEST(filters_that_we_are_behind_are_no_reason)
{
	CHECK(!fm_status_is_sandboxed(STATUS(0, 0), STATUS(0, 0)));
	CHECK(!fm_status_is_sandboxed(STATUS(2, 1), STATUS(2, 1)));
	CHECK(!fm_status_is_sandboxed(STATUS(0, 0), STATUS(2, 1)));
	CHECK(!fm_status_is_sandboxed(STATUS(2, 1), STATUS(2, 3)));
	CHECK(!fm_status_is_sandboxed("", STATUS(0, 0)));
	CHECK(!fm_status_is_sandboxed(OLD_STATUS(2), OLD_STATUS(2)));
}

TEST(filters_of_its_own_are)
{
	CHECK(fm_status_is_sandboxed(STATUS(2, 1), STATUS(0, 0)));
	CHECK(fm_status_is_sandboxed(STATUS(2, 2), STATUS(2, 1)));
	CHECK(fm_status_is_sandboxed(STATUS(1, 0), STATUS(0, 0)));
	CHECK(fm_status_is_sandboxed(STATUS(1, 0), STATUS(2, 1)));
	CHECK(fm_status_is_sandboxed(OLD_STATUS(2), OLD_STATUS(0)));
	CHECK(fm_status_is_sandboxed(STATUS(2, 1), ""));
}

static pthread_barrier_t is_up, is_seen;

static void *put_up_and_wait(void *arg)
{
	struct sock_filter allow_all[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
	struct sock_fprog program = { 1, allow_all };
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	*(int *)arg = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
	pthread_barrier_wait(&is_up);
	pthread_barrier_wait(&is_seen);
	return NULL;
}

// We have none: what we look from is the first thread's, which is "self".
TEST(a_thread_with_a_filter_is_found)
{
	pthread_t thread;
	int failed = -1;
	struct fm_sandbox_watch watch = { 0 };
	CHECK(!fm_process_is_sandboxed((uint32_t)getpid()));
	pthread_barrier_init(&is_up, NULL, 2);
	pthread_barrier_init(&is_seen, NULL, 2);
	pthread_create(&thread, NULL, put_up_and_wait, &failed);
	pthread_barrier_wait(&is_up);
	bool is_found = fm_process_is_sandboxed((uint32_t)getpid());
	bool is_watched = fm_sandbox_watch_look(&watch, (uint32_t)getpid());
	pthread_barrier_wait(&is_seen);
	pthread_join(thread, NULL);
	if (failed)
		return; // filters are not permitted here
	CHECK(is_found && is_watched);
	CHECK(!fm_process_is_sandboxed((uint32_t)getpid()));
	CHECK(fm_sandbox_watch_look(&watch, (uint32_t)getpid())); // for good
}

TEST_MAIN()
