// SPDX-License-Identifier: Apache-2.0
#include "test.h"

#include <signal.h>

#include "base/clock.h"
#include "collect/registry/registry.h"

static struct fm_shared shared;

static struct fm_registry *begin(void)
{
	struct fm_diag diag;
	CHECK_EQ(fm_shared_init(&shared, &diag), FM_OK);
	return fm_registry_create(&shared);
}

// As an agent would.
static void join(uint32_t idx, uint32_t pid)
{
	shared.processes[idx].pid = pid;
	shared.processes[idx].start_ns = fm_now_ns();
	atomic_store(&shared.processes[idx].state, FM_WIRE_LIVE);
}

TEST(a_process_that_maps_the_memory_is_believed)
{
	struct fm_registry *g = begin();
	struct fm_registered now;
	CHECK(!fm_registry_read(g, 7, &now));
	join(7, (uint32_t)getpid());
	CHECK(fm_registry_read(g, 7, &now));
	CHECK_EQ(now.pid, getpid());
	fm_registry_free(g, 7);
	CHECK(!fm_registry_read(g, 7, &now));
	CHECK_EQ(fm_registry_n_refused(g), 0);
}

TEST(a_descendant_that_maps_nothing_is_believed)
{
	struct fm_registry *g = begin();
	struct fm_registered now;
	pid_t child = fork();
	if (child == 0) {
		execlp("sleep", "sleep", "60", (char *)NULL);
		_exit(1);
	}
	join(0, (uint32_t)child);
	CHECK(fm_registry_read(g, 0, &now));
	CHECK_EQ(now.pid, child);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

// Our parent is the runner of tests, which knows nothing of our memory.
TEST(a_process_of_others_is_refused_and_counted_once)
{
	struct fm_registry *g = begin();
	struct fm_registered now;
	join(0, (uint32_t)getppid());
	for (int i = 0; i < 100; i++)
		CHECK(!fm_registry_read(g, 0, &now));
	CHECK_EQ(fm_registry_n_refused(g), 1);
	// It changes its mind: each number is judged for itself.
	atomic_store(&shared.processes[0].pid, (uint32_t)getpid());
	CHECK(fm_registry_read(g, 0, &now));
	atomic_store(&shared.processes[0].pid, (uint32_t)getppid());
	CHECK(!fm_registry_read(g, 0, &now));
}

TEST(of_a_process_that_is_gone_the_number_alone_is_kept)
{
	struct fm_registry *g = begin();
	struct fm_registered now;
	pid_t child = fork();
	if (child == 0)
		_exit(0);
	waitpid(child, NULL, 0);
	join(0, (uint32_t)child);
	CHECK(fm_registry_read(g, 0, &now));
	CHECK_EQ(now.said.pid, child);
	CHECK_EQ(now.pid, FM_REGISTRY_NO_PID);
	CHECK_EQ(fm_registry_n_refused(g), 0);
}

TEST(what_the_collector_enters_is_not_in_shared_memory)
{
	struct fm_registry *g = begin();
	struct fm_registered now;
	uint32_t idx = fm_registry_enter(g, (uint32_t)getppid(), 1, 5);
	CHECK(fm_registry_read(g, idx, &now));
	CHECK_EQ(now.pid, getppid());
	CHECK_EQ(now.said.start_ns, 5);
	CHECK_EQ(now.said.python, FM_WIRE_PYTHON_NONE);
	fm_registry_set_python(g, idx, 0x1000, 0x030c00f0, false);
	CHECK(fm_registry_read(g, idx, &now));
	CHECK_EQ(now.said.python, FM_WIRE_PYTHON_KNOWN);
	CHECK_EQ(atomic_load(&shared.processes[idx].state), FM_WIRE_FREE);
	fm_registry_free(g, idx);
	CHECK(!fm_registry_read(g, idx, &now));
	for (uint32_t i = 0; i < FM_WIRE_N_PROCESSES; i++)
		CHECK(fm_registry_enter(g, 1, 0, 0) < FM_WIRE_N_PROCESSES);
	CHECK_EQ(fm_registry_enter(g, 1, 0, 0), FM_WIRE_N_PROCESSES);
}

TEST_MAIN()
