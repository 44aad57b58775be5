// SPDX-License-Identifier: Apache-2.0
#include "cli/run/results.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/owner.h"
#include "base/str.h"
#include "format/writer.h"

static int make_dirs(char *path)
{
	for (char *p = path + 1; *p; p++) {
		if (*p != '/')
			continue;
		*p = 0;
		int failed = mkdir(path, FM_PRIVATE_FOLDER) != 0 && errno != EEXIST;
		*p = '/';
		if (failed)
			return -1;
	}
	return mkdir(path, FM_PRIVATE_FOLDER);
}

const char *fm_results_folder_distrust(const char *folder)
{
	struct stat st;
	if (lstat(folder, &st) != 0)
		return NULL;
	if (S_ISLNK(st.st_mode) && st.st_uid != geteuid() && st.st_uid != 0)
		return "is a link of another user's";
	return stat(folder, &st) == 0 ? fm_distrust(&st, geteuid()) : NULL;
}

// Results are large, and of one machine: nobody wants them in a commit, or to have to say so.
static void hide_from_git(const char *output_dir)
{
	char path[4096];
	static const char text[] = "# made by fathom: results of this machine\n*\n";
	snprintf(path, sizeof(path), "%s/.gitignore", output_dir);
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, FM_PRIVATE_FILE);
	if (fd >= 0 && write(fd, text, sizeof(text) - 1) < 0)
		unlink(path); // the disk is full, which others will say
}

enum fm_err fm_results_folder_make(const char *output_dir, bool is_usual, const char *stem, char *ret, size_t cap,
				   struct fm_diag *diag)
{
	time_t now = time(NULL);
	struct tm utc;
	gmtime_r(&now, &utc);
	char stamp[32];
	strftime(stamp, sizeof(stamp), "%Y%m%d_%H%M%S", &utc);
	// One that was named is the word of whoever named it; the usual one is just there. Looked
	// at when it is, so that nobody can make it in between.
	const char *why = NULL;
	if (is_usual) {
		mkdir(output_dir, FM_PRIVATE_FOLDER);
		why = fm_results_folder_distrust(output_dir);
		if (!why)
			hide_from_git(output_dir);
	}
	if (why)
		return fm_diag_set(diag, FM_E_REFUSED,
				   "cannot keep results in %s: it %s; choose another folder with --output-dir",
				   output_dir, why);
	for (int i = 1; i < 1000; i++) {
		char suffix[16] = "";
		if (i > 1)
			snprintf(suffix, sizeof(suffix), "_%d", i); // a second run within the second
		if (snprintf(ret, cap, "%s/%s/%s%s", output_dir, stem, stamp, suffix) >= (int)cap)
			return fm_diag_set(diag, FM_E_USAGE, "the results folder's path is too long");
		if (make_dirs(ret) == 0)
			return FM_OK;
		if (errno != EEXIST)
			break;
	}
	return fm_diag_set(diag, FM_E_IO, "cannot make the results folder %s: %s; choose another with --output-dir",
			   ret, strerror(errno));
}

void fm_results_folder_copy(const char *dir, const char *script)
{
	const char *base = strrchr(script, '/');
	char path[8192], buffer[65536];
	snprintf(path, sizeof(path), "%s/%s", dir, base ? base + 1 : script);
	_cleanup_close_ int from = open(script, O_RDONLY | O_CLOEXEC);
	_cleanup_close_ int to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, FM_PRIVATE_FILE);
	ssize_t n;
	while (from >= 0 && to >= 0 && (n = read(from, buffer, sizeof(buffer))) > 0)
		if (write(to, buffer, (size_t)n) != n)
			break; // a full disk; the capture says so itself
}

enum fm_err fm_results_folder_tell(const char *dir, const char *path, struct fm_diag *diag)
{
	_cleanup_free_ char *real = realpath(dir, NULL);
	_cleanup_fclose_ FILE *f = fm_fopen_private(path, false);
	if (real && f && fprintf(f, "%s\n", real) > 0 && fflush(f) == 0)
		return FM_OK;
	return fm_diag_set(diag, FM_E_IO, "cannot write to %s: %s", path, strerror(errno));
}

bool fm_cells_tell(struct fm_writer *w, const char *results_dir)
{
	char path[4200];
	snprintf(path, sizeof(path), "%s/cells.tsv", results_dir);
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	_cleanup_free_ char *line = NULL;
	size_t cap = 0;
	struct fm_buf rows = { 0 };
	if (!f || getline(&line, &cap, f) < 0) // the heading
		return false;
	for (ssize_t len; (len = getline(&line, &cap, f)) > 0;)
		fm_buf_bytes(&rows, line, (size_t)len);
	if (rows.len)
		fm_writer_meta(w, "notebook_cells", (struct fm_str){ (char *)rows.data, (uint32_t)rows.len });
	fm_buf_deinit(&rows);
	return true;
}
