// SPDX-License-Identifier: Apache-2.0
#include "sigsafe/base/thread_block.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/compiler.h"
#include "base/system_call.h"

#include "sigsafe/base/sigsafe.h"

bool fm_sig_may_read_fsbase;

#if defined(__x86_64__)
#define GET_FS 0x1003 // ARCH_GET_FS
#define N_KEPT 256u   // a power of two

// Those that were seen to be good. Where a thread's block was, no other runtime puts its own.
static _Atomic(uintptr_t) kept[N_KEPT];

static FM_SIGSAFE uintptr_t thread_pointer(void)
{
	uintptr_t at = 0;
	if (fm_sig_may_read_fsbase)
		__asm__ volatile("rdfsbase %0" : "=r"(at));
	else if (fm_system_call(SYS_arch_prctl, GET_FS, (long)&at, 0, 0) != 0)
		at = UINTPTR_MAX;
	return at;
}

// A block begins with its own address (the ABI's word for thread-local storage). It may not be there at all, and
// whether a fault would come to us is a thread-local, too: so the kernel reads it.
static FM_SIGSAFE __attribute__((noinline, cold)) bool is_block(uintptr_t at)
{
	uintptr_t first = 0;
	struct iovec local = { &first, sizeof(first) }, remote = { (void *)at, sizeof(first) };
	long tid = fm_system_call(SYS_gettid, 0, 0, 0, 0);
	long n = fm_system_call6(SYS_process_vm_readv, tid, (long)&local, 1, (long)&remote, 1, 0);
	return n == (long)sizeof(first) ? first == at : n != -EFAULT;
}

FM_SIGSAFE bool fm_sig_has_thread_block(void)
{
	uintptr_t at = thread_pointer();
	_Atomic(uintptr_t) *place = &kept[(at >> 6 ^ at >> 12 ^ at >> 20) % N_KEPT];
	if (FM_LIKELY(atomic_load_explicit(place, memory_order_relaxed) == at && at))
		return true;
	if (!at)
		return false;
	if (at != UINTPTR_MAX && !is_block(at)) // the latter: the kernel does not tell
		return false;
	atomic_store_explicit(place, at, memory_order_relaxed);
	return true;
}

#else

FM_SIGSAFE bool fm_sig_has_thread_block(void)
{
	return __builtin_thread_pointer() != NULL;
}

#endif
