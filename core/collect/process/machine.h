// SPDX-License-Identifier: Apache-2.0
// What this machine is like, and what it lets us have: which engine fits, how busy it is, and how
// soon our own threads get a CPU.
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
