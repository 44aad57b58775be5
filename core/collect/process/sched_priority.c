// SPDX-License-Identifier: Apache-2.0
#include "collect/process/sched_priority.h"

#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

// The shortest slice there is.
#define SLICE_NS 100000u

void fm_raise_sched_priority(int nice)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime_ns, deadline_ns, period_ns;
	} attr = { .size = 48, .runtime_ns = SLICE_NS };
	id_t self = (id_t)syscall(SYS_gettid);
	if (nice)
		setpriority(PRIO_PROCESS, self, nice);
	attr.nice = getpriority(PRIO_PROCESS, self);
	syscall(SYS_sched_setattr, 0, &attr, 0u);
}
