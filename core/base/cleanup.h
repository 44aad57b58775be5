// SPDX-License-Identifier: Apache-2.0
// Scope-bound cleanup: the resource is released on every way out of the block.
//   _cleanup_free_ char *name = NULL;
//   _cleanup_close_ int fd = -1;
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(fn) __attribute__((cleanup(fn)))

static inline void fm_cleanup_free(void *p)
{
	free(*(void **)p);
}

static inline void fm_cleanup_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void fm_cleanup_fclose(FILE **f)
{
	if (*f)
		fclose(*f);
}

#define _cleanup_free_ _cleanup_(fm_cleanup_free)
#define _cleanup_close_ _cleanup_(fm_cleanup_close)
#define _cleanup_fclose_ _cleanup_(fm_cleanup_fclose)
