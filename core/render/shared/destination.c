// SPDX-License-Identifier: Apache-2.0
#include "render/shared/destination.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/owner.h"

enum fm_err fm_destination_open(const char *path, const char *profile_path, struct fm_destination *ret,
				struct fm_diag *diag)
{
	if (!path || !strcmp(path, "-")) {
		*ret = (struct fm_destination){ stdout, "standard output", false, false };
		return FM_OK;
	}
	struct stat in, out;
	if (!stat(profile_path, &in) && !stat(path, &out) && in.st_dev == out.st_dev && in.st_ino == out.st_ino)
		return fm_diag_set(diag, FM_E_REFUSED, "%s is the profile itself; give another output file", path);
	FILE *file = fm_fopen_private(path, false);
	if (!file)
		return fm_diag_set(diag, FM_E_IO, "cannot write %s: %s", path, strerror(errno));
	bool is_regular = !fstat(fileno(file), &out) && S_ISREG(out.st_mode);
	*ret = (struct fm_destination){ file, path, true, is_regular };
	return FM_OK;
}

enum fm_err fm_destination_close(struct fm_destination *out, enum fm_err err, struct fm_diag *diag)
{
	errno = 0;
	bool is_bad = fflush(out->file);
	int cause = errno;
	if (!is_bad && ferror(out->file)) {
		// An earlier write failed and stdio forgot why. The file is broken anyhow: write
		// again to hear the reason.
		clearerr(out->file);
		fputc('\n', out->file);
		fflush(out->file);
		cause = errno;
		is_bad = true;
	}
	if (out->is_ours && fclose(out->file)) {
		is_bad = true;
		cause = cause ? cause : errno;
	}
	if (is_bad && !err)
		err = fm_diag_set(diag, FM_E_IO, "cannot write %s: %s", out->path, strerror(cause ? cause : EIO));
	if (err && out->is_fresh_regular)
		unlink(out->path); // half a file would be taken for a whole one
	return err;
}
