// SPDX-License-Identifier: Apache-2.0
// What another tool wrote, as a capture that goes when this process ends.
#include "cli/captures/captures.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "format/chunk.h"
#include "import/import.h"

#define MAX_PASSING 8u // a command has two captures at most, each of which may be made of runs

// Files without a name, open until this process ends, however it does.
static struct {
	char path[32];
} passing[MAX_PASSING];
static unsigned n_passing;

const char *fm_passing_file(void)
{
	const char *folder = getenv("TMPDIR");
	char path[4096];
	snprintf(path, sizeof(path), "%s/fathom-XXXXXX", folder && *folder ? folder : "/tmp");
	errno = EMFILE;
	int fd = n_passing < MAX_PASSING ? mkostemp(path, O_CLOEXEC) : -1;
	if (fd < 0)
		return NULL;
	unlink(path);
	snprintf(passing[n_passing].path, sizeof(passing[0].path), "/proc/self/fd/%d", fd);
	return passing[n_passing++].path;
}

const char *fm_capture_called(const char *capture, const char *named)
{
	for (unsigned i = 0; i < n_passing; i++)
		if (!strcmp(passing[i].path, capture))
			return named;
	return NULL;
}

// What begins like a capture, and what is no file that could be another tool's, is the reader's to judge.
static bool is_for_reader(const char *path)
{
	struct stat st;
	char head[FM_FILE_MAGIC_BYTES];
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode))
		return true;
	ssize_t n = pread(fd, head, sizeof(head), 0);
	return n <= 0 || !memcmp(head, FM_FILE_MAGIC, (size_t)n);
}

enum fm_err fm_foreign_capture(const char *path, char **ret, struct fm_diag *diag)
{
	struct fm_import_options options = { 0 };
	if (is_for_reader(path)) {
		*ret = fm_strdup_n(path, strlen(path));
		return FM_OK;
	}
	enum fm_err err = fm_import_recognise(path, &options.importer, diag);
	if (err)
		return err;
	const char *capture = fm_passing_file();
	if (!capture)
		return fm_diag_set(diag, FM_E_IO, "cannot write a temporary file: %s; set TMPDIR to a writable folder",
				   strerror(errno));
	err = fm_import_file(path, capture, &options, diag);
	if (err == FM_E_TRUNCATED)
		fm_say("%s; Fathom shows the part before it", diag->text);
	else if (err)
		return err;
	*ret = fm_strdup_n(capture, strlen(capture));
	return FM_OK;
}
