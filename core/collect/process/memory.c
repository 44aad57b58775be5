// SPDX-License-Identifier: Apache-2.0
#include "collect/process/memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "collect/process/machine.h"

ssize_t fm_process_readv(uint32_t pid, const struct iovec *to, size_t n_to, uint64_t addr, size_t len)
{
	struct iovec remote = { (void *)(uintptr_t)addr, len };
	ssize_t n = process_vm_readv((pid_t)pid, to, n_to, &remote, 1, 0);
	if (n >= 0 || (errno != EPERM && errno != ENOSYS))
		return n;
	// The process may be closed to us; or rules of a container forbid the call, but not the
	// file.
	char path[32];
	snprintf(path, sizeof(path), "/proc/%u/mem", pid);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		errno = EPERM;
		return -1;
	}
	return preadv(fd, to, (int)n_to, (off_t)addr);
}

bool fm_process_read(uint32_t pid, uint64_t addr, void *to, size_t len, bool *ret_is_refused)
{
	struct iovec local = { to, len };
	ssize_t n = fm_process_readv(pid, &local, 1, addr, len);
	if (ret_is_refused)
		*ret_is_refused = n < 0 && errno == EPERM;
	return n == (ssize_t)len;
}

bool fm_process_write(uint32_t pid, uint64_t addr, const void *from, size_t len)
{
	struct iovec local = { (void *)(uintptr_t)from, len }, remote = { (void *)(uintptr_t)addr, len };
	return process_vm_writev((pid_t)pid, &local, 1, &remote, 1, 0) == (ssize_t)len;
}

bool fm_process_maps(uint32_t pid, fm_process_map_fn each, void *ctx)
{
	char path[64], *line = NULL;
	size_t cap = 0;
	snprintf(path, sizeof(path), "/proc/%u/maps", pid);
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	if (!file)
		return false;
	bool has_any = false; // a zombie has none
	for (ssize_t len; (len = getline(&line, &cap, file)) > 0;) {
		unsigned long long start, end, off, inode;
		unsigned major, minor;
		char mode[8];
		int path_at = 0;
		if (line[len - 1] == '\n')
			line[len - 1] = 0;
		if (sscanf(line, "%llx-%llx %7s %llx %x:%x %llu %n", &start, &end, mode, &off, &major, &minor, &inode,
			   &path_at) < 7)
			continue;
		struct fm_process_map map = { start,
					      end,
					      off,
					      major,
					      minor,
					      inode,
					      mode[2] == 'x',
					      mode[1] == 'w',
					      path_at ? line + path_at : "" };
		each(ctx, &map);
		has_any = true;
	}
	free(line);
	return has_any;
}

bool fm_process_threads(int task_fd, void (*each)(void *ctx, uint32_t tid), void *ctx)
{
	int fd = openat(task_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		fm_descriptors_note(errno);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	if (!dir) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	for (struct dirent *e; (e = readdir(dir));) {
		uint32_t tid = (uint32_t)strtoul(e->d_name, NULL, 10);
		if (tid)
			each(ctx, tid);
	}
	closedir(dir);
	return true;
}
