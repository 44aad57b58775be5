// SPDX-License-Identifier: Apache-2.0
#include "collect/process/sandbox.h"

#include <fcntl.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "collect/process/memory.h"
#include "collect/process/proc.h"

#define STATUS_BYTES 16384 // a user may be in hundreds of groups
#define LOOK_NS 10000000u
#define LOOK_SHARE 200u // of the time, one part

static long number_of(const char *status, const char *name)
{
	const char *at = strstr(status, name);
	return at ? strtol(at + strlen(name), NULL, 10) : -1;
}

bool fm_status_is_sandboxed(const char *theirs, const char *ours)
{
	long mode = number_of(theirs, "\nSeccomp:"), our_mode = number_of(ours, "\nSeccomp:");
	long n = number_of(theirs, "\nSeccomp_filters:"), our_n = number_of(ours, "\nSeccomp_filters:");
	return mode > SECCOMP_MODE_DISABLED && (mode != our_mode || mode == SECCOMP_MODE_STRICT || n > our_n);
}

struct look {
	char ours[STATUS_BYTES];
	uint32_t pid;
	bool is_sandboxed;
};

static void look_at(void *ctx, uint32_t tid)
{
	struct look *look = ctx;
	char name[40], theirs[STATUS_BYTES];
	snprintf(name, sizeof(name), "task/%u/status", tid);
	fm_process_read_proc(look->pid, name, theirs, sizeof(theirs)); // nothing, of one that has ended
	look->is_sandboxed |= fm_status_is_sandboxed(theirs, look->ours);
}

bool fm_process_is_sandboxed(uint32_t pid)
{
	struct look look = { .pid = pid };
	char path[32];
	snprintf(path, sizeof(path), "/proc/%u/task", pid);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fm_process_read_own_status(look.ours, sizeof(look.ours));
	if (fd >= 0)
		fm_process_threads(fd, look_at, &look);
	return look.is_sandboxed;
}

bool fm_sandbox_watch_look(struct fm_sandbox_watch *w, uint32_t pid)
{
	uint64_t now_ns = fm_now_ns();
	if (w->is_sandboxed || now_ns < w->next_ns)
		return w->is_sandboxed;
	w->is_sandboxed = fm_process_is_sandboxed(pid);
	uint64_t took_ns = fm_now_ns() - now_ns;
	w->next_ns = now_ns + FM_MAX(LOOK_SHARE * took_ns, LOOK_NS);
	return w->is_sandboxed;
}
