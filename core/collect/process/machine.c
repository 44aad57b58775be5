// SPDX-License-Identifier: Apache-2.0
#include "collect/process/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <linux/magic.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "wire/wire.h"

// The shortest slice there is.
#define SLICE_NS 100000u

bool fm_machine_is_virtual(void)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/cpuinfo", "re");
	char line[4096];
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, "flags", 5))
			return strstr(line, " hypervisor") != NULL;
	return false;
}

bool fm_engine_perf_is_permitted(int *ret_errno)
{
	struct perf_event_attr attr;
	memset(&attr, 0, sizeof(attr));
	attr.type = PERF_TYPE_SOFTWARE;
	attr.size = FM_PERF_ATTR_SIZE;
	attr.config = PERF_COUNT_SW_TASK_CLOCK;
	attr.sample_period = 1000000000u;
	attr.disabled = 1;
	attr.exclude_kernel = 1;
	attr.exclude_hv = 1;
	((uint64_t *)&attr)[FM_PERF_FLAG_WORD] |= FM_PERF_REMOVE_ON_EXEC | FM_PERF_SIGTRAP;
	_cleanup_close_ int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 8ul);
	if (ret_errno)
		*ret_errno = fd < 0 ? errno : 0;
	return fd >= 0;
}

// The fourth word of /proc/loadavg, "RUNNING/ALL".
uint32_t fm_running_count(int fd)
{
	char text[64];
	ssize_t n = fd >= 0 ? pread(fd, text, sizeof(text) - 1, 0) : 0;
	text[n > 0 ? n : 0] = 0;
	const char *at = text;
	for (int i = 0; i < 3 && at; i++)
		at = strchr(at + (i > 0), ' ');
	return at ? (uint32_t)strtoul(at, NULL, 10) : 0;
}

// Some containers put a file of their own in its place, which is seconds old.
int fm_running_open(void)
{
	struct statfs fs;
	int fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && (fstatfs(fd, &fs) != 0 || fs.f_type != PROC_SUPER_MAGIC || fm_running_count(fd) == 0)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

void fm_raise_sched_priority(int nice)
{
	struct fm_sched_attr attr = { .size = sizeof(attr), .runtime_ns = SLICE_NS };
	id_t self = (id_t)syscall(SYS_gettid);
	if (nice)
		setpriority(PRIO_PROCESS, self, nice);
	attr.nice = getpriority(PRIO_PROCESS, self);
	syscall(SYS_sched_setattr, 0, &attr, 0u);
}

void fm_urgent_begin(struct fm_urgent *u)
{
	struct sched_param most = { .sched_priority = sched_get_priority_min(SCHED_RR) };
	u->is_urgent = syscall(SYS_sched_getattr, 0, &u->was, (unsigned)sizeof(u->was), 0u) == 0 &&
		       sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &most) == 0;
}

void fm_urgent_end(struct fm_urgent *u)
{
	if (u->is_urgent)
		syscall(SYS_sched_setattr, 0, &u->was, 0u);
	u->is_urgent = false;
}
