// SPDX-License-Identifier: Apache-2.0
// mmap and its kin. Counted is memory that can be used: private or shared, not backed by a file,
// not a mere reservation (PROT_NONE). What malloc maps for itself it asks of the kernel directly,
// so nothing is counted twice. With it, mmap is another name of mmap64, and both are to be defined
// here.
#undef _FILE_OFFSET_BITS

#include "base/compiler.h"
#include "agent/memory.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/system_call.h"
#include "sigsafe/memory/alloc.h"
#include "sigsafe/memory/exact.h"
#include "sigsafe/memory/maps.h"
#include "sigsafe/base/state.h"

#ifndef MCL_ONFAULT
#define MCL_ONFAULT 4 // Linux 4.4
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4 // Linux 5.7
#endif

static void *(*_Atomic real_sbrk)(intptr_t);

void fm_agent_maps_resolve(void)
{
	atomic_store(&real_sbrk, (void *(*)(intptr_t))fm_agent_next_symbol("sbrk"));
}

// As libc's functions answer.
static long answer(long ret)
{
	if ((unsigned long)ret < -4095ul)
		return ret;
	errno = (int)-ret;
	return -1;
}

static bool is_watched(void)
{
	return atomic_load_explicit(&fm_sig_alloc_is_on, memory_order_acquire);
}

// An interpreter that has not chosen its allocators yet maps nothing but room for them: the 1 GiB
// of mimalloc's first arena.
static bool is_arena(uintptr_t caller)
{
	return caller - fm_sig.python.image_start < fm_sig.python.image_end - fm_sig.python.image_start &&
	       !fm_agent_memory_knows_python();
}

static inline __attribute__((always_inline)) void *map(void *addr, size_t size, int prot, int flags, int fd,
						       off_t offset)
{
	if (is_watched() && (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) == MAP_FIXED)
		fm_sig_map_removed((uintptr_t)addr, size);
	// The system call is all that libc's own function makes of it.
	void *p = (void *)answer(fm_system_call6(SYS_mmap, (long)addr, (long)size, prot, flags, fd, offset));
	if (p != MAP_FAILED && flags & MAP_ANONYMOUS && prot != PROT_NONE && is_watched() &&
	    !is_arena((uintptr_t)__builtin_return_address(0)))
		fm_sig_map_added((uintptr_t)p, size);
	return p;
}

FM_EXPORT void *mmap(void *addr, size_t size, int prot, int flags, int fd, off_t offset)
{
	return map(addr, size, prot, flags, fd, offset);
}

FM_EXPORT void *mmap64(void *addr, size_t size, int prot, int flags, int fd, off_t offset);
FM_EXPORT void *mmap64(void *addr, size_t size, int prot, int flags, int fd, off_t offset)
{
	return map(addr, size, prot, flags, fd, offset);
}

FM_EXPORT int munmap(void *addr, size_t size)
{
	// Before: afterwards another thread may be given the same addresses. What the kernel would
	// refuse changes nothing.
	if (is_watched() && size && !((uintptr_t)addr & 4095))
		fm_sig_map_removed((uintptr_t)addr, size);
	return (int)answer(fm_system_call(SYS_munmap, (long)addr, (long)size, 0, 0));
}

FM_EXPORT void *mremap(void *old, size_t old_size, size_t new_size, int flags, ...)
{
	void *wanted = NULL;
	if (flags & (MREMAP_FIXED | MREMAP_DONTUNMAP)) { // to the second it is a hint
		va_list args;
		va_start(args, flags);
		wanted = va_arg(args, void *);
		va_end(args);
	}
	// Of a mapping that was not sampled nobody knows whether it is one of the kind that is
	// counted.
	bool is_known = is_watched() && old_size && fm_sig_map_overlaps((uintptr_t)old, old_size);
	if (is_known)
		fm_sig_map_removed((uintptr_t)old, old_size);
	if (is_watched() && flags & MREMAP_FIXED)
		fm_sig_map_removed((uintptr_t)wanted, new_size);
	void *p = (void *)answer(
		fm_system_call6(SYS_mremap, (long)old, (long)old_size, (long)new_size, flags, (long)wanted, 0));
	if (is_known && p == MAP_FAILED)
		fm_sig_map_added((uintptr_t)old, old_size);
	else if (is_known)
		fm_sig_map_added((uintptr_t)p, new_size);
	return p;
}

FM_EXPORT void *sbrk(intptr_t by)
{
	void *(*fn)(intptr_t) = atomic_load_explicit(&real_sbrk, memory_order_relaxed);
	if (!fn) {
		fm_agent_maps_resolve();
		fn = atomic_load_explicit(&real_sbrk, memory_order_relaxed);
	}
	if (!fn) {
		errno = ENOMEM;
		return (void *)-1;
	}
	void *before = fn(by);
	if (before == (void *)-1 || !is_watched())
		return before;
	if (by > 0)
		fm_sig_map_added((uintptr_t)before, (uint64_t)by);
	else if (by < 0)
		fm_sig_map_removed((uintptr_t)before - (uintptr_t)-by, (uint64_t)-by);
	return before;
}

// Exact mode's tables take 34 GiB of addresses, of which hardly any is used: who has all that is
// there locked would have all of it filled. Instead each page is locked when it is first used, the
// program's too; those that are in use already are locked at once.
FM_EXPORT int mlockall(int flags)
{
	if (flags & MCL_CURRENT && fm_sig_exact)
		flags |= MCL_ONFAULT;
	return (int)answer(fm_system_call(SYS_mlockall, flags, 0, 0, 0));
}

OURS(mlockall);
OURS(mmap);
OURS(mmap64);
OURS(munmap);
OURS(mremap);
OURS(sbrk);
const struct fm_agent_hook fm_agent_map_hooks[] = {
	HOOK(mmap), HOOK(mmap64), HOOK(munmap), HOOK(mremap), HOOK(sbrk), HOOK(mlockall), { NULL, NULL },
};
