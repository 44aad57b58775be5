// SPDX-License-Identifier: Apache-2.0
#include "symbolize/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/owner.h"

// A user may have the home, or the folder for caches, behind a link of their own; what is below is
// ours alone.
#define OPEN_THEIRS (O_PATH | O_DIRECTORY | O_CLOEXEC)
#define OPEN_OURS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

// The folder around ours, and what is below the home on the way there.
static const char *find_base(const char **ret_below)
{
	const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	bool has_base = base && base[0] == '/';
	*ret_below = has_base ? NULL : ".cache";
	return has_base ? base : home && home[0] == '/' ? home : NULL;
}

bool fm_cache_folder(char *ret, size_t cap)
{
	const char *below, *base = find_base(&below);
	int n = base ? snprintf(ret, cap, "%s%s%s/fathom/symbols", base, below ? "/" : "", below ? below : "") : -1;
	return n > 0 && (size_t)n < cap;
}

static void make_path(const char *path)
{
	char part[4096];
	for (size_t i = 1; i < sizeof(part) && path[i - 1]; i++)
		if ((path[i] == '/' || !path[i]) && snprintf(part, i + 1, "%s", path) > 0)
			mkdir(part, FM_PRIVATE_FOLDER);
}

// The folder `name` of `at`, which is closed.
static int step(int at, const char *name, int flags, bool is_made, const char **ret_why)
{
	struct stat st;
	if (at == -1)
		return -1;
	if (is_made && at != AT_FDCWD)
		mkdirat(at, name, FM_PRIVATE_FOLDER);
	int fd = openat(at, name, flags);
	if (fd < 0 && (errno == ELOOP || errno == ENOTDIR))
		*ret_why = "is not a folder, or a symbolic link";
	if (at >= 0)
		close(at);
	if (fd < 0 || fstat(fd, &st) != 0)
		return -1;
	*ret_why = fm_distrust(&st, geteuid());
	if (!*ret_why)
		return fd;
	close(fd);
	return -1;
}

int fm_cache_folder_open(bool is_made, const char **ret_why)
{
	const char *below, *base = find_base(&below), *ignored;
	const char **why = ret_why ? ret_why : &ignored;
	*why = NULL;
	if (!base)
		return -1;
	if (is_made && !below)
		make_path(base);
	int fd = step(AT_FDCWD, base, OPEN_THEIRS, is_made, why);
	if (below)
		fd = step(fd, below, OPEN_THEIRS, is_made, why);
	fd = step(fd, "fathom", OPEN_OURS, is_made, why);
	return step(fd, "symbols", OPEN_OURS, is_made, why);
}
