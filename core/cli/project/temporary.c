// SPDX-License-Identifier: Apache-2.0
#include "cli/project/temporary.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
