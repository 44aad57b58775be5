// SPDX-License-Identifier: Apache-2.0
#include "base/owner.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *fm_distrust(const struct stat *st, uid_t user)
{
	if (st->st_uid != user && st->st_uid != 0)
		return "belongs to another user";
	bool is_private_group = st->st_gid == 0 || st->st_gid == (gid_t)user;
	if (st->st_mode & S_IWOTH || (st->st_mode & S_IWGRP && !is_private_group))
		return "can be written by others";
	return NULL;
}

int fm_open_believed(const char *path, uid_t user, const char **ret_why)
{
	return fm_believe(open(path, FM_OPEN_BELIEVED), user, ret_why);
}

int fm_believe(int fd, uid_t user, const char **ret_why)
{
	struct stat st;
	*ret_why = fd < 0 && errno == ELOOP ? "is a symbolic link" : NULL;
	if (fd < 0) {
		errno = *ret_why ? 0 : errno;
		return -1;
	}
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		*ret_why = "is not a regular file";
	else
		*ret_why = fm_distrust(&st, user);
	if (!*ret_why)
		return fd;
	close(fd);
	errno = 0;
	return -1;
}

FILE *fm_fopen_private(const char *path, bool is_append)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | (is_append ? O_APPEND : O_TRUNC), FM_PRIVATE_FILE);
	FILE *file = fd >= 0 ? fdopen(fd, is_append ? "a" : "w") : NULL;
	if (fd >= 0 && !file)
		close(fd);
	return file;
}

enum fm_err fm_temporary_make(char *ret, size_t cap, struct fm_diag *diag)
{
	const char *dir = getenv("TMPDIR");
	snprintf(ret, cap, "%s/fathom-XXXXXX", dir && *dir ? dir : "/tmp");
	int fd = mkostemp(ret, O_CLOEXEC);
	if (fd < 0)
		return fm_diag_set(diag, FM_E_IO, "cannot make a temporary file: %s; set TMPDIR to a folder with room",
				   strerror(errno));
	close(fd);
	return FM_OK;
}
