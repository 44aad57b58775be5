// SPDX-License-Identifier: Apache-2.0
// Files of a test's own, removed when its process ends.
#pragma once

#include "test.h"

#define SCRATCH_FILES 64

static char scratch_paths[SCRATCH_FILES][40];
static unsigned n_scratch_files;

static inline void remove_scratch_files(void)
{
	while (n_scratch_files)
		unlink(scratch_paths[--n_scratch_files]);
}

// A new one, empty.
static inline const char *scratch_file(void)
{
	CHECK(n_scratch_files < SCRATCH_FILES);
	if (n_scratch_files == 0)
		atexit(remove_scratch_files);
	char *path = scratch_paths[n_scratch_files++];
	snprintf(path, sizeof(scratch_paths[0]), "/tmp/fathom-test-XXXXXX");
	int fd = mkstemp(path);
	CHECK(fd >= 0);
	close(fd);
	return path;
}
