// SPDX-License-Identifier: Apache-2.0
#include "image/debug_file.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"

// The public interface of libdebuginfod.so.1 (elfutils, debuginfod.h), as far as it is used.
typedef void *(*begin_fn)(void);
typedef void (*end_fn)(void *client);
typedef int (*find_fn)(void *client, const unsigned char *build_id, int build_id_len, char **path);
typedef int (*progress_fn)(void *client, long a, long b);
typedef void (*set_progress_fn)(void *client, progress_fn fn);

static uint64_t deadline_ns; // 0 = nothing was asked yet

static int stop_when_late(void *client, long a, long b)
{
	return fm_now_ns() > deadline_ns;
}

bool fm_debuginfod_is_wanted(void)
{
	const char *urls = getenv("DEBUGINFOD_URLS");
	return urls && *urls;
}

static void *load(void)
{
	// Not before someone wants it: it brings libcurl and a dozen others along.
	return dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_LOCAL);
}

bool fm_debuginfod_is_there(void)
{
	return load() != NULL;
}

void fm_debuginfod_start_clock(void)
{
	if (!deadline_ns)
		deadline_ns = fm_now_ns() + (uint64_t)FM_DEBUGINFOD_SECONDS * 1000000000u;
}

enum fm_err fm_debuginfod_find(struct fm_str build_id, char *ret_path, size_t cap)
{
	void *library = fm_debuginfod_is_wanted() ? load() : NULL;
	if (!library)
		return FM_E_UNSUPPORTED;
	begin_fn begin = (begin_fn)dlsym(library, "debuginfod_begin");
	end_fn end = (end_fn)dlsym(library, "debuginfod_end");
	find_fn find = (find_fn)dlsym(library, "debuginfod_find_debuginfo");
	set_progress_fn set_progress = (set_progress_fn)dlsym(library, "debuginfod_set_progressfn");
	if (!begin || !end || !find || !set_progress)
		return FM_E_UNSUPPORTED;
	fm_debuginfod_start_clock();
	if (fm_now_ns() > deadline_ns)
		return FM_E_IO;
	void *client = begin();
	if (!client)
		return FM_E_UNSUPPORTED;
	set_progress(client, stop_when_late);
	char *path = NULL;
	int fd = find(client, (const unsigned char *)build_id.p, (int)build_id.len, &path);
	end(client);
	if (fd >= 0)
		close(fd);
	bool fits = fd >= 0 && path && (size_t)snprintf(ret_path, cap, "%s", path) < cap;
	free(path);
	if (fits)
		return FM_OK;
	// A transfer that we stopped ends as "no such file", too.
	return fd == -ENOENT && fm_now_ns() <= deadline_ns ? FM_E_NOT_FOUND : FM_E_IO;
}
