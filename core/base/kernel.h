// SPDX-License-Identifier: Apache-2.0
// System calls whose functions are younger than the oldest glibc that is served (2.17). As those,
// they return -1 and set errno.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/compiler.h"

#ifndef SYS_close_range
#define SYS_close_range 436 // on every CPU
#endif

static inline int fm_memfd_create(const char *name, unsigned flags)
{
	return (int)syscall(SYS_memfd_create, name, flags);
}

static inline ssize_t fm_getrandom(void *to, size_t len, unsigned flags)
{
	return syscall(SYS_getrandom, to, len, flags);
}

// Linux 5.9; before, one by one.
static inline void fm_close_range(unsigned first, unsigned last)
{
	if (syscall(SYS_close_range, first, last, 0) == 0)
		return;
	struct rlimit limit;
	uint64_t end = getrlimit(RLIMIT_NOFILE, &limit) ? 1024 : FM_MIN((uint64_t)limit.rlim_cur, 1u << 20);
	for (uint64_t fd = first; fd <= last && fd < end; fd++)
		close((int)fd);
}
