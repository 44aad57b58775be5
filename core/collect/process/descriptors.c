// SPDX-License-Identifier: Apache-2.0
#include "collect/process/machine.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "base/compiler.h"

// The process has one table of descriptors, so this has one home as well. limit: written once
// before other threads are there.
static int limit = INT_MAX;
static _Atomic uint64_t n_unkept, n_refused;

void fm_descriptors_raise(void)
{
	struct rlimit now;
	if (getrlimit(RLIMIT_NOFILE, &now))
		return;
	now.rlim_cur = now.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &now))
		getrlimit(RLIMIT_NOFILE, &now);
	limit = (int)FM_MIN(now.rlim_cur, (rlim_t)INT_MAX);
}

// The kernel gives out the lowest number that is free, so a number tells how many are taken.
bool fm_descriptors_may_keep(int fd)
{
	if (FM_LIKELY(fd < limit - FM_DESCRIPTORS_SPARE))
		return true;
	atomic_fetch_add_explicit(&n_unkept, 1, memory_order_relaxed);
	return false;
}

void fm_descriptors_note(int error)
{
	if (error == EMFILE || error == ENFILE)
		atomic_fetch_add_explicit(&n_refused, 1, memory_order_relaxed);
}

struct fm_descriptors_counts fm_descriptors_count(void)
{
	return (struct fm_descriptors_counts){ atomic_load(&n_unkept), atomic_load(&n_refused) };
}
