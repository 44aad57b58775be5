// SPDX-License-Identifier: Apache-2.0
// A counter of what a program and its children do, and of nothing else. A clock of the kernel stands in
// for instructions: machines without a counter of these have it, and both are opened and inherited alike.
#include "cli/run/instructions.h"

#include <linux/perf_event.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "test.h"

static const struct fm_counted task_clock = { PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK };

static void burn_ns(uint64_t ns)
{
	for (uint64_t end = fm_clock_ns(CLOCK_PROCESS_CPUTIME_ID) + ns; fm_clock_ns(CLOCK_PROCESS_CPUTIME_ID) < end;)
		continue;
}

// In a child; without a command it is one that only forks.
static void run_child(const char *command)
{
	pid_t pid = fork();
	if (pid == 0 && command)
		execl("/bin/sh", "sh", "-c", command, NULL);
	if (pid == 0) {
		burn_ns(20000000);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

static uint64_t count(const char *command)
{
	int fd;
	struct fm_diag diag;
	if (fm_instructions_open(&task_clock, &fd, &diag))
		return 0;
	burn_ns(20000000);
	run_child(command);
	uint64_t n = fm_instructions_read(fd);
	close(fd);
	return n;
}

TEST(a_program_and_its_children_count_and_this_process_does_not)
{
	int fd;
	struct fm_diag diag;
	if (fm_instructions_open(&task_clock, &fd, &diag)) {
		CHECK(diag.text[0]); // not permitted here, which it says
		return;
	}
	close(fd);
	CHECK_EQ(count(NULL), 0);
	static const char loop[] = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
	uint64_t once = count(loop);
	CHECK(once > 1000000);
	// Its own children do the work here, four times as much: without them there would be next to nothing.
	char children[200];
	snprintf(children, sizeof(children), "for k in 1 2 3 4; do sh -c '%s'; done", loop);
	CHECK(count(children) > 2 * once);
	CHECK_EQ(fm_instructions_read(-1), 0);
}

TEST(what_no_machine_counts_is_refused_with_a_reason)
{
	int fd = -2;
	struct fm_diag diag = { "" };
	const struct fm_counted nonsense = { PERF_TYPE_SOFTWARE, 1u << 20 };
	CHECK_EQ(fm_instructions_open(&nonsense, &fd, &diag), FM_E_UNSUPPORTED);
	CHECK(diag.text[0] && fd == -2);
}

TEST_MAIN()
