// SPDX-License-Identifier: Apache-2.0
#include "format/output.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/owner.h"

bool fm_output_lock(int fd, const char *path, struct fm_diag *diag)
{
	// Some network file systems have no locks: there one writer may still destroy what another
	// writes.
	if (!flock(fd, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK)
		return true;
	fm_diag_set(diag, FM_E_REFUSED,
		    "another fathom is writing to %s; name another file, or put %%p (process id), %%t (time) or %%r "
		    "(rank) into its name",
		    path);
	return false;
}

enum fm_err fm_output_open(struct fm_output *out, const char *path, struct fm_diag *diag)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, FM_PRIVATE_FILE);
	struct stat st = { 0 };
	if (fd < 0 || fstat(fd, &st))
		return fm_diag_set(diag, FM_E_IO, "cannot write %s: %s; name a file in an existing, writable folder",
				   path, strerror(errno));
	bool is_regular = S_ISREG(st.st_mode);
	if (is_regular && !fm_output_lock(fd, path, diag))
		return FM_E_REFUSED;
	if (is_regular && ftruncate(fd, 0)) // not before it is ours
		return fm_diag_set(diag, FM_E_IO, "cannot write %s: %s; name another file", path, strerror(errno));
	*out = (struct fm_output){
		.fd = fd, .path = fm_strdup_n(path, strlen(path)), .is_regular = is_regular, .has_name = st.st_nlink > 0
	};
	fd = -1; // the output's now
	return FM_OK;
}

// The file is still there, and as long as we made it.
static bool is_untouched(struct fm_output *out)
{
	struct stat st;
	if (!out->is_regular || fstat(out->fd, &st))
		return true;
	out->was_removed = !st.st_nlink && out->has_name;
	out->found_bytes = (uint64_t)st.st_size;
	return !out->was_removed && out->found_bytes == out->offset;
}

static int write_all(int fd, const uint8_t *p, size_t len)
{
	while (len) {
		ssize_t n = write(fd, p, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno;
		if (n == 0)
			return ENOSPC; // nothing taken and nothing said: trying for ever would hang the capture
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

// A file size limit sends SIGXFSZ and a closed pipe SIGPIPE, and either would end the program where
// an error code does. They are held back on this thread and taken off again, because ignoring them
// would be inherited by the programs we start.
static int write_without_signals(int fd, const uint8_t *p, size_t len)
{
	sigset_t held, before, pending;
	sigemptyset(&held);
	sigaddset(&held, SIGXFSZ);
	sigaddset(&held, SIGPIPE);
	sigpending(&pending);
	pthread_sigmask(SIG_BLOCK, &held, &before);
	int error = write_all(fd, p, len);
	if (error == EFBIG || error == EPIPE) {
		int ours = error == EFBIG ? SIGXFSZ : SIGPIPE;
		if (!sigismember(&pending, ours)) {
			sigset_t one;
			sigemptyset(&one);
			sigaddset(&one, ours);
			while (sigtimedwait(&one, NULL, &(struct timespec){ 0 }) < 0 && errno == EINTR)
				;
		}
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error;
}

enum fm_err fm_output_append(struct fm_output *out, const void *p, size_t len)
{
	if (out->err)
		return out->err;
	if (!is_untouched(out))
		return out->err = FM_E_NOT_FOUND;
	int error = write_without_signals(out->fd, p, len);
	if (error) {
		// Cut back to the last whole piece. A pipe or device refuses; then readers meet a
		// piece cut short, which they bear.
		int ignored = ftruncate(out->fd, (off_t)out->offset);
		(void)ignored;
		out->system_errno = error;
		return out->err = FM_E_IO;
	}
	out->offset += len;
	return FM_OK;
}

void fm_output_describe(const struct fm_output *out, struct fm_diag *diag)
{
	const unsigned long long offset = out->offset, found = out->found_bytes;
	if (out->system_errno)
		fm_diag_set(diag, out->err,
			    "cannot write %sto %s: %s; it holds what was recorded until then (%llu bytes)",
			    offset ? "more " : "", out->path, strerror(out->system_errno), offset);
	else if (out->was_removed)
		fm_diag_set(diag, out->err, "%s was removed while Fathom wrote it: the recording (%llu bytes) is lost",
			    out->path, offset);
	else
		fm_diag_set(diag, out->err,
			    "another program changed %s while Fathom wrote it (it had %llu bytes, and has %llu now): "
			    "the recording is lost, or cut off there",
			    out->path, offset, found);
}

bool fm_output_has_moved(const struct fm_output *out, char *ret, size_t cap)
{
	struct stat ours, named;
	if (!out->is_regular || out->err || fstat(out->fd, &ours) ||
	    (!stat(out->path, &named) && named.st_dev == ours.st_dev && named.st_ino == ours.st_ino))
		return false;
	char link[32];
	snprintf(link, sizeof(link), "/proc/self/fd/%d", out->fd);
	ssize_t n = readlink(link, ret, cap - 1);
	snprintf(ret + FM_MAX(n, 0), cap - (size_t)FM_MAX(n, 0), "%s", n > 0 ? "" : "another name");
	return true;
}

enum fm_err fm_output_close(struct fm_output *out, struct fm_diag *diag)
{
	// Network file systems report a failed write as late as here.
	if (close(out->fd) < 0 && errno != EINTR && !out->err) {
		out->err = FM_E_IO;
		out->system_errno = errno;
	}
	enum fm_err err = out->err;
	if (err)
		fm_output_describe(out, diag);
	free(out->path);
	*out = (struct fm_output){ .fd = -1 };
	return err;
}
