// SPDX-License-Identifier: Apache-2.0
#include "cli/run/instructions.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

const struct fm_counted fm_counted_instructions = { PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS };

static const char *why_not(int err)
{
	if (err == ENOENT || err == ENODEV || err == EOPNOTSUPP)
		return "this machine has no counter for them, like most virtual machines";
	if (err == EACCES || err == EPERM)
		return "the system does not permit it (kernel.perf_event_paranoid, or a container's filter)";
	return strerror(err);
}

enum fm_err fm_instructions_open(const struct fm_counted *what, int *ret_fd, struct fm_diag *diag)
{
	// Disabled until exec, and inherited so: processes that never exec (a collector, this one) stay
	// uncounted. A child's count is added to this one's when it ends.
	struct perf_event_attr attr = {
		.type = what->type,
		.size = sizeof(attr),
		.config = what->config,
		.disabled = 1,
		.inherit = 1,
		.enable_on_exec = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
	};
	int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return fm_diag_set(diag, FM_E_UNSUPPORTED, "%s", why_not(errno));
	*ret_fd = fd;
	return FM_OK;
}

uint64_t fm_instructions_read(int fd)
{
	struct {
		uint64_t count, enabled_ns, running_ns;
	} got;
	if (fd < 0 || read(fd, &got, sizeof(got)) != sizeof(got))
		return 0;
	// Where others use the counters, too, the kernel takes turns, and the rest would be a guess.
	return got.running_ns >= got.enabled_ns ? got.count : 0;
}
