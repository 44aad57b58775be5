// SPDX-License-Identifier: Apache-2.0
// What there is to know of this machine before an engine is used (capture.h).
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "collect/capture/capture.h"

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
