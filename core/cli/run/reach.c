// SPDX-License-Identifier: Apache-2.0
#include "cli/run/reach.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/kernel.h"
#include "cli/project/project.h"
#include "collect/process/file.h"
#include "collect/process/memory.h"
#include "collect/process/proc.h"
#include "wire/wire.h"

#define AGENT_COPY "_agent.abi3.so"

// ---- who it is ----

static bool is_same_namespace(uint32_t pid, const char *name)
{
	char path[64];
	struct stat theirs, ours;
	snprintf(path, sizeof(path), "/proc/%u/ns/%s", pid, name);
	bool has_theirs = stat(path, &theirs) == 0;
	snprintf(path, sizeof(path), "/proc/self/ns/%s", name);
	return has_theirs && stat(path, &ours) == 0 && theirs.st_ino == ours.st_ino;
}

static enum fm_err may_reach(struct fm_reach *r, struct fm_diag *diag)
{
	if (r->is_other_user && geteuid() != 0)
		return fm_diag_set(diag, FM_E_REFUSED,
				   "process %u belongs to another user; to load the agent into it, run as root; to "
				   "observe it from outside, leave out --memory, --trace and --inject",
				   r->pid);
	// The agent tells its numbers as it knows them itself.
	if (fm_process_own_pid(r->pid) != r->pid || !is_same_namespace(r->pid, "user"))
		return fm_diag_set(diag, FM_E_REFUSED,
				   "process %u is in a container with its own process numbers or users, where Fathom "
				   "cannot load the agent; run fathom there, or observe it from outside without "
				   "--memory, --trace and --inject",
				   r->pid);
	return FM_OK;
}

// ---- the folder ----

// A folder of the process's, whatever links it has there: they end at its root.
static int open_theirs(uint32_t pid, const char *path)
{
	char root[32];
	struct open_how how = { .flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
				.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
	snprintf(root, sizeof(root), "/proc/%u/root", pid);
	_cleanup_close_ int root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return root_fd < 0 ? -1 : (int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
}

// Libraries are loaded from there.
static bool may_execute(int fd)
{
	struct statvfs fs;
	return fstatvfs(fd, &fs) == 0 && !(fs.f_flag & (ST_NOEXEC | ST_RDONLY));
}

static enum fm_err make_theirs(struct fm_reach *r, struct fm_diag *diag)
{
	static const char *const places[] = { "/tmp", "/var/tmp", "/dev/shm" };
	uint64_t random;
	if (fm_getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return fm_diag_set(diag, FM_E_IO, "cannot make a name: %m");
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		_cleanup_close_ int fd = open_theirs(r->pid, places[i]);
		if (fd < 0 || !may_execute(fd))
			continue;
		snprintf(r->dir, sizeof(r->dir), "%s/fathom-%016llx", places[i], (unsigned long long)random);
		const char *name = r->dir + strlen(places[i]) + 1;
		if (mkdirat(fd, name, 0700) != 0)
			continue;
		r->dir_fd = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		r->parent_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		r->dir_name = name;
		if (r->dir_fd >= 0 && r->parent_fd >= 0)
			return FM_OK;
		unlinkat(fd, name, AT_REMOVEDIR);
	}
	r->dir[0] = 0;
	return fm_diag_set(diag, FM_E_REFUSED,
			   "process %u has no folder for temporary files from which it could load a library (/tmp, "
			   "/var/tmp, /dev/shm); to observe it from outside, leave out --memory, --trace and --inject",
			   r->pid);
}

static enum fm_err make_ours(struct fm_reach *r, struct fm_diag *diag)
{
	enum fm_err err = fm_temporary_folder(r->dir, sizeof(r->dir), diag);
	if (err)
		return err;
	r->parent_fd = AT_FDCWD;
	r->dir_name = r->dir;
	r->dir_fd = open(r->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return r->dir_fd >= 0 ? FM_OK : fm_diag_set(diag, FM_E_IO, "cannot open %s: %m", r->dir);
}

// ---- the agent ----

static void note_agent(void *ctx, const struct fm_process_map *map)
{
	bool *is_there = ctx;
	*is_there |= strstr(map->path, "/" AGENT_COPY) != NULL;
}

// Whether it finds our file by the same path, and may read it.
static bool reads_ours(const struct fm_reach *r, const char *agent)
{
	struct fm_rights rights = { 0 };
	struct stat theirs, ours;
	fm_rights_read(r->pid, &rights);
	_cleanup_close_ int fd = fm_process_open_as(&rights, r->pid, agent);
	return fd >= 0 && fstat(fd, &theirs) == 0 && stat(agent, &ours) == 0 && theirs.st_ino == ours.st_ino &&
	       theirs.st_dev == ours.st_dev;
}

static enum fm_err copy_agent(struct fm_reach *r, const char *agent, struct fm_diag *diag)
{
	bool is_there = false;
	struct stat st;
	fm_process_maps(r->pid, note_agent, &is_there);
	if (is_there) // a second copy would know nothing of the first
		return fm_diag_set(diag, FM_E_REFUSED,
				   "process %u has a copy of the agent from an earlier capture; it can load another "
				   "one only if it can read the agent itself: set FATHOM_AGENT_PATH to a file that it "
				   "can read, and restart the process",
				   r->pid);
	_cleanup_close_ int from = open(agent, O_RDONLY | O_CLOEXEC);
	_cleanup_close_ int to =
		openat(r->dir_fd, AGENT_COPY, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0500);
	if (from < 0 || to < 0 || fstat(from, &st) != 0)
		return fm_diag_set(diag, FM_E_IO, "cannot copy the agent to %s: %m", r->dir);
	r->has_copy = true;
	for (off_t left = st.st_size; left > 0;) {
		ssize_t n = sendfile(to, from, NULL, (size_t)left);
		if (n <= 0)
			return fm_diag_set(diag, FM_E_IO, "cannot copy the agent to %s: %m", r->dir);
		left -= n;
	}
	if (r->is_other_user && fchown(to, r->uid, r->gid) != 0)
		return fm_diag_set(diag, FM_E_IO, "cannot give the copy of the agent to its user: %m");
	snprintf(r->agent, sizeof(r->agent), "%s/" AGENT_COPY, r->dir);
	return FM_OK;
}

enum fm_err fm_reach_open(struct fm_reach *r, uint32_t pid, const char *agent, struct fm_diag *diag)
{
	struct fm_rights rights = { 0 };
	*r = (struct fm_reach){ .pid = pid, .dir_fd = -1, .parent_fd = -1, .holder_fd = -1 };
	fm_rights_read(pid, &rights);
	r->uid = rights.uid;
	r->gid = rights.gid;
	r->is_other_user = !fm_process_is_same_user(pid) || (rights.is_known && rights.uid != geteuid());
	enum fm_err err = may_reach(r, diag);
	bool is_elsewhere = r->is_other_user || fm_process_is_elsewhere(pid);
	snprintf(r->agent, sizeof(r->agent), "%s", agent);
	if (!err)
		err = is_elsewhere ? make_theirs(r, diag) : make_ours(r, diag);
	if (!err && is_elsewhere && !reads_ours(r, agent))
		err = copy_agent(r, agent, diag);
	// Last: until now nobody else could change what is in it.
	if (!err && r->is_other_user && fchown(r->dir_fd, r->uid, r->gid) != 0)
		err = fm_diag_set(diag, FM_E_IO, "cannot give %s to its user: %m", r->dir);
	if (err)
		fm_reach_close(r);
	return err;
}

void fm_reach_close(struct fm_reach *r)
{
	if (r->holder_fd >= 0)
		close(r->holder_fd);
	if (r->holder)
		waitpid(r->holder, NULL, 0);
	if (r->has_copy)
		fm_reach_remove(r, AGENT_COPY);
	if (r->dir_fd >= 0) {
		close(r->dir_fd);
		unlinkat(r->parent_fd, r->dir_name, AT_REMOVEDIR);
	}
	if (r->parent_fd >= 0)
		close(r->parent_fd);
	r->holder_fd = r->dir_fd = r->parent_fd = -1;
	r->holder = 0;
}

// ---- files ----

FILE *fm_reach_write(const struct fm_reach *r, const char *name)
{
	unlinkat(r->dir_fd, name, 0);
	int fd = openat(r->dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return NULL;
	FILE *f = !r->is_other_user || fchown(fd, r->uid, r->gid) == 0 ? fdopen(fd, "w") : NULL;
	if (!f)
		close(fd);
	return f;
}

bool fm_reach_take(const struct fm_reach *r, const char *name, char *ret, size_t cap)
{
	struct stat st;
	// It may be anything: the process has made it.
	_cleanup_close_ int fd = openat(r->dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		return false;
	ssize_t n = read(fd, ret, cap - 1);
	ret[n > 0 ? n : 0] = 0;
	unlinkat(r->dir_fd, name, 0);
	return true;
}

void fm_reach_remove(const struct fm_reach *r, const char *name)
{
	unlinkat(r->dir_fd, name, 0);
}

// ---- the shared memory ----

// The agent opens it by a descriptor of a process in /proc, which only those may do who could look
// into that process altogether: not into root's. So another program has it open, which has nothing
// of ours in its memory and waits for the end of its input. (Between the change of users and exec
// the kernel lets nobody look.)
#define HOLDER "/bin/cat"

static void close_between(int after, int before)
{
	if (before - after > 1)
		fm_close_range((unsigned)after + 1, (unsigned)before - 1);
}

static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static _Noreturn void hold_open(const struct fm_rights *rights, int in_fd, int error_fd, int published_fd,
				int shared_fd)
{
	char *argv[] = { (char *)"fathom: holds shared memory open", NULL }, *env[] = { NULL };
	int kept[] = { error_fd, published_fd, shared_fd };
	int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
	// cat(1) ends where it has no output.
	if (dup2(in_fd, 0) == 0 && dup2(nothing, 1) == 1 && dup2(nothing, 2) == 2 &&
	    fcntl(published_fd, F_SETFD, 0) == 0 && fcntl(shared_fd, F_SETFD, 0) == 0) {
		qsort(kept, 3, sizeof(*kept), compare);
		close_between(2, kept[0]);
		close_between(kept[0], kept[1]);
		close_between(kept[1], kept[2]);
		close_between(kept[2], INT_MAX);
		signal(SIGINT, SIG_IGN); // of the terminal: it ends when the capture has
		if (setgroups(rights->n_groups, rights->groups) == 0 &&
		    setresgid(rights->gid, rights->gid, rights->gid) == 0 &&
		    setresuid(rights->uid, rights->uid, rights->uid) == 0)
			execve(HOLDER, argv, env);
	}
	(void)!write(error_fd, "x", 1);
	_exit(1);
}

static bool read_shared_fd(int published_fd, int *ret)
{
	struct fm_wire_header header;
	*ret = -1;
	if (pread(published_fd, &header, sizeof(header), 0) == (ssize_t)sizeof(header))
		*ret = (int)header.shared_fd;
	return *ret >= 0;
}

bool fm_reach_ring(struct fm_reach *r, const char *ring_path, char *ret, size_t cap)
{
	struct fm_rights rights = { 0 };
	const char *number = strrchr(ring_path, '/');
	int in[2], error[2], published_fd = number ? atoi(number + 1) : -1, shared_fd;
	char byte;
	if (!r->is_other_user) {
		snprintf(ret, cap, "%s", ring_path);
		return true;
	}
	fm_rights_read(r->pid, &rights);
	if (!rights.is_known || !read_shared_fd(published_fd, &shared_fd) || pipe2(in, O_CLOEXEC) != 0)
		return false;
	r->holder_fd = in[1];
	if (pipe2(error, O_CLOEXEC) != 0) {
		close(in[0]);
		return false;
	}
	r->holder = fork();
	if (r->holder == 0)
		hold_open(&rights, in[0], error[1], published_fd, shared_fd);
	close(in[0]);
	close(error[1]);
	bool is_holding = r->holder > 0 && read(error[0], &byte, 1) == 0; // exec has closed it
	close(error[0]);
	snprintf(ret, cap, "/proc/%d/fd%s", (int)r->holder, number);
	return is_holding;
}
