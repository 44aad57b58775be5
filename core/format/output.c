#include "format/output.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/owner.h"

enum fm_err fm_output_open(struct fm_output *out, const char *path, struct fm_diag *diag)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, FM_PRIVATE_FILE);
	if (fd < 0)
		return fm_diag_set(diag, FM_E_IO,
				   "cannot write %s: %s; name a file in a folder that is there and may be written to",
				   path, strerror(errno));
	*out = (struct fm_output){ .fd = fd, .path = fm_strdup_n(path, strlen(path)) };
	return FM_OK;
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

// A file size limit sends SIGXFSZ and a closed pipe SIGPIPE, and either would end the program where an error code does.
// They are held back on this thread and taken off again, because ignoring them would be inherited by the programs we
// start.
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
	int error = write_without_signals(out->fd, p, len);
	if (error) {
		// Cut back to the last whole piece. A pipe or device refuses; then readers meet a piece cut short,
		// which they bear.
		int ignored = ftruncate(out->fd, (off_t)out->offset);
		(void)ignored;
		out->system_errno = error;
		return out->err = FM_E_IO;
	}
	out->offset += len;
	return FM_OK;
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
		fm_diag_set(diag, err, "cannot write %s: %s; it holds what was recorded up to then (%llu bytes)",
			    out->path, strerror(out->system_errno), (unsigned long long)out->offset);
	free(out->path);
	*out = (struct fm_output){ .fd = -1 };
	return err;
}
