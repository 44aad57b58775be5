// SPDX-License-Identifier: Apache-2.0
// What this machine is like, and what it lets us have: which engine fits, how busy it is, how soon our
// own threads get a CPU, and how many files we may have open.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// There every timer interrupt leaves the guest, which costs ten times a signal from another core.
bool fm_machine_is_virtual(void);
bool fm_engine_perf_is_permitted(int *ret_errno); // ret_errno may be NULL

// How many threads of the whole machine run or could, the caller among them. The descriptor is -1
// where that cannot be told.
int fm_running_open(void);
uint32_t fm_running_count(int fd);

// On a machine whose CPUs are all busy our threads share them with those that they watch, and when
// they get to run must not depend on what those do: some system calls are where the scheduler looks
// around. A short slice lets them in at once (Linux 6.12, no privilege asked); so does a better
// priority, where that is permitted. For the calling thread. nice: 0 = as it is.
void fm_raise_sched_priority(int nice);

// While a program is held others must not have the CPU in our place: the calling thread comes before
// all but real-time ones, where that is permitted.
struct fm_sched_attr { // as the kernel has it in its first version
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime_ns, deadline_ns, period_ns;
};
struct fm_urgent {
	struct fm_sched_attr was;
	bool is_urgent;
};
void fm_urgent_begin(struct fm_urgent *u);
void fm_urgent_end(struct fm_urgent *u);

// File descriptors, of which a limit ('ulimit -n') may leave few: files that are asked often are
// kept open only as long as enough others are left. What is not kept is opened, read and closed
// each time, which costs more and loses nothing.

// For what must be open for a moment, or comes once a process: images, memory, lists of threads.
#define FM_DESCRIPTORS_SPARE 48

// Takes as many as the system lets us have. To be called once, before any other thread is there,
// and not before the target is on its way: it would inherit it.
void fm_descriptors_raise(void);
// From any thread: this one, which is open, may stay so. Counts those that may not.
bool fm_descriptors_may_keep(int fd);
// open() failed with this errno: counts it where there were too few. From any thread.
void fm_descriptors_note(int error);

// Files in /proc that were not kept open, and opens that failed for want of a descriptor.
struct fm_descriptors_counts {
	uint64_t n_unkept, n_refused;
};
struct fm_descriptors_counts fm_descriptors_count(void);
