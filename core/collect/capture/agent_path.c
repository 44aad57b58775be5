// SPDX-License-Identifier: Apache-2.0
#include "collect/capture/agent_path.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

// Resolves path into ret when it is a file that can be read. LD_PRELOAD wants no relative path: the
// target may change its directory before it starts another program.
static enum fm_err resolve(const char *path, char *ret, size_t cap, struct fm_diag *diag)
{
	_cleanup_free_ char *real = realpath(path, NULL);
	if (!real || access(real, R_OK))
		return fm_diag_set(diag, FM_E_NOT_FOUND, "cannot read the agent %s: %s", path, strerror(errno));
	size_t len = strlen(real);
	if (len >= cap)
		return fm_diag_set(diag, FM_E_UNSUPPORTED, "the agent's path is longer than %zu bytes: %s", cap - 1,
				   real);
	memcpy(ret, real, len + 1);
	return FM_OK;
}

enum fm_err fm_agent_path_find_from(const char *program_dir, char *ret, size_t cap, struct fm_diag *diag)
{
	static const char *const places[] = { "", "../", "../lib/fathom/" };
	for (size_t i = 0; i < FM_ARRAY_LEN(places); i++) {
		char path[PATH_MAX];
		int len = snprintf(path, sizeof(path), "%s/%s%s", program_dir, places[i], FM_AGENT_FILE);
		if (len < (int)sizeof(path) && !access(path, F_OK))
			return resolve(path, ret, cap, diag);
	}
	return fm_diag_set(
		diag, FM_E_NOT_FOUND,
		"no %s beside %s, in .. or in ../lib/fathom; reinstall, or set FATHOM_AGENT_PATH to the file",
		FM_AGENT_FILE, program_dir);
}

// The folder of this program, into ret.
static enum fm_err program_dir(char *ret, size_t cap, struct fm_diag *diag)
{
	ssize_t len = readlink("/proc/self/exe", ret, cap - 1);
	if (len <= 0)
		return fm_diag_set(diag, FM_E_IO, "cannot read /proc/self/exe: %s; Fathom needs /proc mounted",
				   strerror(errno));
	ret[len] = '\0';
	char *slash = strrchr(ret, '/');
	if (slash)
		*slash = '\0';
	return FM_OK;
}

enum fm_err fm_package_path_find(const char *name, char *ret, size_t cap, struct fm_diag *diag)
{
	static const char *const places[] = { "../", "../python/fathom/", "../lib/fathom/" };
	char dir[PATH_MAX], path[PATH_MAX];
	enum fm_err err = program_dir(dir, sizeof(dir), diag);
	if (err)
		return err;
	for (size_t i = 0; i < FM_ARRAY_LEN(places); i++) {
		int len = snprintf(path, sizeof(path), "%s/%s%s", dir, places[i], name);
		_cleanup_free_ char *real = len < (int)sizeof(path) ? realpath(path, NULL) : NULL;
		if (!real || strlen(real) >= cap)
			continue;
		memcpy(ret, real, strlen(real) + 1);
		return FM_OK;
	}
	return fm_diag_set(diag, FM_E_NOT_FOUND,
			   "no %s in .., ../python/fathom or ../lib/fathom, seen from %s; reinstall fathom-profiler",
			   name, dir);
}

enum fm_err fm_agent_path_find(char *ret, size_t cap, struct fm_diag *diag)
{
	const char *named = getenv("FATHOM_AGENT_PATH");
	if (named && *named) {
		enum fm_err err = resolve(named, ret, cap, NULL);
		// No falling back: whoever names a file wants that one, or to hear that it is not
		// there.
		return err ? fm_diag_set(diag, err, "FATHOM_AGENT_PATH names %s, which cannot be used", named) : FM_OK;
	}
	char program[PATH_MAX];
	enum fm_err err = program_dir(program, sizeof(program), diag);
	if (err)
		return err;
	return fm_agent_path_find_from(program, ret, cap, diag);
}
