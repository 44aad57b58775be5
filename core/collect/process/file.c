// SPDX-License-Identifier: Apache-2.0
#include "collect/process/file.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/owner.h"

#define NOBODY 65534u
#define OPEN_FLAGS (O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)

// The last of the four numbers of "Uid:" and "Gid:" is what counts for files.
static uint32_t last_of_four(const char *line)
{
	unsigned a, b, c, d;
	return sscanf(line + 4, "%u %u %u %u", &a, &b, &c, &d) == 4 ? d : NOBODY;
}

void fm_rights_read(uint32_t pid, struct fm_rights *rights)
{
	char path[32];
	_cleanup_free_ char *line = NULL;
	size_t room = 0;
	snprintf(path, sizeof(path), "/proc/%u/status", pid);
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	if (!file)
		return;
	struct fm_rights now = { .uid = NOBODY, .gid = NOBODY };
	while (getline(&line, &room, file) > 0) {
		if (!strncmp(line, "Uid:", 4)) {
			now.uid = last_of_four(line);
			now.is_known = true;
		} else if (!strncmp(line, "Gid:", 4)) {
			now.gid = last_of_four(line);
		} else if (!strncmp(line, "Groups:", 7)) {
			char *at = line + 7, *end;
			for (gid_t gid; now.n_groups < FM_MAX_GROUPS && (gid = (gid_t)strtoul(at, &end, 10), end > at);
			     at = end)
				now.groups[now.n_groups++] = gid;
		}
	}
	if (now.is_known)
		*rights = now;
}

// ---- this thread's own rights, for the moment of an open() ----

struct own {
	gid_t gid, groups[256];
	int n_groups; // -1: nothing was changed
};

// Asked for by a number that nobody has, both tell what is, and change nothing.
static uid_t file_uid(void)
{
	return (uid_t)setfsuid((uid_t)-1);
}

static gid_t file_gid(void)
{
	return (gid_t)setfsgid((gid_t)-1);
}

// Of this thread alone: libc's setgroups would change all of them.
static bool set_groups(size_t n, const gid_t *groups)
{
	return syscall(SYS_setgroups, n, groups) == 0;
}

// Root gives up what the process does not have. Others have nothing to give: the kernel judges by
// who they are. False: it could not.
static bool take_rights(const struct fm_rights *rights, struct own *ret)
{
	static const struct fm_rights everybody = { .uid = NOBODY, .gid = NOBODY };
	const struct fm_rights *r = rights->is_known ? rights : &everybody;
	ret->n_groups = -1;
	if (geteuid() != 0 || (r->uid == 0 && r->is_known))
		return true;
	ret->gid = file_gid();
	ret->n_groups = getgroups((int)(sizeof(ret->groups) / sizeof(*ret->groups)), ret->groups);
	if (ret->n_groups < 0 || !set_groups(r->n_groups, r->groups))
		return false;
	setfsgid(r->gid);
	setfsuid(r->uid); // last: with it go the rights to change the others' files, and to read them
	return file_uid() == r->uid && file_gid() == r->gid;
}

static void give_rights_back(const struct own *own)
{
	if (own->n_groups < 0)
		return;
	setfsuid(geteuid());
	setfsgid(own->gid);
	set_groups((size_t)own->n_groups, own->groups);
}

// ---- the file ----

// Links that begin with a slash begin at the process's root, too; where the kernel does not know
// how (before 5.6), at ours.
static int open_below(int dir_fd, const char *path, bool is_root, int flags)
{
	struct open_how how = { .flags = (uint64_t)flags,
				.resolve = is_root ? RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS : 0 };
	while (is_root && *path == '/')
		path++;
	int fd = (int)syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));
	return fd >= 0 || (errno != ENOSYS && errno != EPERM) ? fd : openat(dir_fd, path, flags);
}

static int open_path(int dir_fd, const char *path, int flags)
{
	if (dir_fd >= 0)
		return open_below(dir_fd, path, path[0] == '/', flags);
	return path[0] == '/' ? open(path, flags) : -1;
}

static int only_regular(int fd)
{
	struct stat st;
	if (fd < 0 || (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)))
		return fd;
	close(fd);
	return -1;
}

// The kernel tells paths of mapped files as we see them. For a process with a root of its own
// (chroot) that is in front of its own path.
static const char *below_root(uint32_t pid, const char *path)
{
	char link[32], root[4096];
	snprintf(link, sizeof(link), "/proc/%u/root", pid);
	ssize_t n = readlink(link, root, sizeof(root));
	bool is_below = n > 1 && (size_t)n < sizeof(root) && !strncmp(path, root, (size_t)n) && path[n] == '/';
	return is_below ? path + n : path;
}

// The folder where the path begins, by our own rights; -1 when the process is gone.
static int open_start(uint32_t pid, const char *path)
{
	char dir[32];
	snprintf(dir, sizeof(dir), "/proc/%u/%s", pid, path[0] == '/' ? "root" : "cwd");
	return open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static int open_as(const struct fm_rights *rights, uint32_t pid, const char *path, int flags)
{
	struct own own;
	_cleanup_close_ int dir_fd = open_start(pid, path);
	int fd = take_rights(rights, &own) ? open_path(dir_fd, path, flags) : -1, err = errno;
	give_rights_back(&own);
	errno = err;
	return fd;
}

int fm_process_open_as(const struct fm_rights *rights, uint32_t pid, const char *path)
{
	return only_regular(open_as(rights, pid, path, OPEN_FLAGS));
}

int fm_process_open_believed(const struct fm_rights *rights, uint32_t pid, const char *path, const char **ret_why)
{
	*ret_why = NULL;
	if (!rights->is_known)
		return -1;
	return fm_believe(open_as(rights, pid, path, FM_OPEN_BELIEVED), rights->uid, ret_why);
}

int fm_process_open(uint32_t pid, const char *path)
{
	_cleanup_close_ int dir_fd = open_start(pid, path);
	return only_regular(open_path(dir_fd, path[0] == '/' ? below_root(pid, path) : path, OPEN_FLAGS));
}

static bool is_same_link(uint32_t pid, const char *name)
{
	char path[32], theirs[64], ours[64];
	snprintf(path, sizeof(path), "/proc/%u/%s", pid, name);
	ssize_t n = readlink(path, theirs, sizeof(theirs));
	snprintf(path, sizeof(path), "/proc/self/%s", name);
	return n < 0 || (readlink(path, ours, sizeof(ours)) == n && !memcmp(theirs, ours, (size_t)n));
}

bool fm_process_is_elsewhere(uint32_t pid)
{
	return !is_same_link(pid, "root") || !is_same_link(pid, "ns/mnt");
}

bool fm_process_has_other_clock(uint32_t pid)
{
	return !is_same_link(pid, "ns/time");
}

int fm_process_open_elsewhere(uint32_t pid, const char *path)
{
	struct stat theirs, ours;
	int fd = fm_process_open(pid, path);
	if (fd < 0 || fstat(fd, &theirs) != 0 || stat(path, &ours) != 0 || theirs.st_ino != ours.st_ino ||
	    theirs.st_dev != ours.st_dev)
		return fd;
	close(fd);
	return -1;
}
