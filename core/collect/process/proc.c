// SPDX-License-Identifier: Apache-2.0
#include "collect/process/proc.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

#define STAT_BYTES 1024
#define STATUS_BYTES 16384 // a user may be in hundreds of groups

static size_t read_file(const char *path, char *to, size_t cap)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	for (ssize_t n; fd >= 0 && len < cap - 1 && (n = read(fd, to + len, cap - 1 - len)) > 0;)
		len += (size_t)n;
	to[len] = 0;
	return len;
}

size_t fm_process_read_proc(uint32_t pid, const char *name, char *to, size_t cap)
{
	char path[96];
	snprintf(path, sizeof(path), "/proc/%u/%s", pid, name);
	return read_file(path, to, cap);
}

size_t fm_process_read_own_status(char *to, size_t cap)
{
	return read_file("/proc/self/status", to, cap);
}

const char *fm_stat_field(const char *text, unsigned field)
{
	const char *at = strrchr(text, ')');
	for (unsigned i = 2; at && i < field; i++)
		at = strchr(at + 1, ' ');
	return at ? at + 1 : "";
}

char fm_process_state(uint32_t pid, uint32_t tid)
{
	char name[32] = "stat", text[STAT_BYTES];
	if (tid)
		snprintf(name, sizeof(name), "task/%u/stat", tid);
	fm_process_read_proc(pid, name, text, sizeof(text));
	return *fm_stat_field(text, 3);
}

uint64_t fm_process_stat(uint32_t pid, enum fm_process_stat field)
{
	char text[STAT_BYTES];
	fm_process_read_proc(pid, "stat", text, sizeof(text));
	return strtoull(fm_stat_field(text, field), NULL, 10);
}

uint64_t fm_process_ticks_ns(uint64_t ticks)
{
	return ticks * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK));
}

uint32_t fm_process_parent(uint32_t pid)
{
	return (uint32_t)fm_process_stat(pid, FM_STAT_PARENT);
}

bool fm_process_is_over(int pidfd, uint32_t pid)
{
	if (pidfd >= 0) {
		struct pollfd end = { .fd = pidfd, .events = POLLIN };
		return poll(&end, 1, 0) > 0;
	}
	char state = fm_process_state(pid, 0);
	return !state || state == 'Z' || state == 'X';
}

bool fm_process_is_same_user(uint32_t pid)
{
	char path[32];
	struct stat st;
	snprintf(path, sizeof(path), "/proc/%u", pid);
	return stat(path, &st) == 0 && st.st_uid == geteuid();
}

uint32_t fm_process_own_pid(uint32_t pid)
{
	char text[STATUS_BYTES];
	fm_process_read_proc(pid, "status", text, sizeof(text));
	char *line = strstr(text, "\nNSpid:");
	if (!line)
		return pid;
	line[1 + strcspn(line + 1, "\n")] = 0;
	const char *last = strrchr(line, '\t');
	uint64_t own = last ? strtoul(last, NULL, 10) : 0;
	return own ? (uint32_t)own : pid;
}

void fm_process_python_version(uint32_t hexversion, bool is_free_threaded, char ret[FM_PYTHON_VERSION_BYTES])
{
	unsigned major = hexversion >> 24, minor = hexversion >> 16 & 0xff, micro = hexversion >> 8 & 0xff;
	if (hexversion & 0xffff)
		snprintf(ret, FM_PYTHON_VERSION_BYTES, "%u.%u.%u%s", major, minor, micro,
			 is_free_threaded ? " free-threaded" : "");
	else
		snprintf(ret, FM_PYTHON_VERSION_BYTES, "%u.%u", major, minor);
}
