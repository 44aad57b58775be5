// SPDX-License-Identifier: Apache-2.0
// Whose thread state is the calling thread's. CPython has functions for that, but they are not
// called: from 3.12 on, in a shared libpython, they ask the loader for a thread-local
// (__tls_get_addr), which may call malloc. Where that thread-local is kept is read from the
// function's own instructions instead, once, and then from memory.
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "sigsafe/base/fault.h"
#include "sigsafe/base/raw.h"
#include "sigsafe/base/state.h"

// How the function at `accessor`, which returns a thread-local pointer, gets at it. False: in no
// way known here.
bool fm_sig_tls_decode(uintptr_t accessor, struct fm_sig_tls *ret);

// The state of the calling thread, 0 = it has none. *ret_is_attached: it may run Python now; it
// holds the GIL where there is one.
uintptr_t fm_sig_thread_state(struct fm_sig_thread *t, bool *ret_is_attached);

// A thread's state by the interpreters' own lists, 0 = it is in none. Bounded, but slow where
// threads are many.
uintptr_t fm_sig_thread_state_listed(uint64_t thread);

static FM_ALWAYS_INLINE uintptr_t fm_sig_thread_pointer(void)
{
	uintptr_t v;
#if defined(__x86_64__)
	__asm__("movq %%fs:0, %0" : "=r"(v));
#else
	__asm__("mrs %0, tpidr_el0" : "=r"(v));
#endif
	return v;
}

// Where a thread-local is in the calling thread; 0 = this thread has none yet.
static FM_ALWAYS_INLINE uintptr_t fm_sig_tls_address(const struct fm_sig_tls *tls)
{
	if (tls->kind == FM_SIG_TLS_FIXED)
		return tls->offset;
	if (tls->kind == FM_SIG_TLS_STATIC)
		return fm_sig_thread_pointer() + tls->offset;
	// glibc: the thread's vector of blocks, by module; its length is in front of it, -1 is "not
	// allocated".
	uint64_t vector, n, block;
	if (tls->kind != FM_SIG_TLS_MODULE || !fm_sig_read_u64(fm_sig_thread_pointer() + 8, &vector) ||
	    !fm_sig_read_u64(vector - 16, &n) || tls->module > n ||
	    !fm_sig_read_u64(vector + 16 * tls->module, &block) || block == UINT64_MAX)
		return 0;
	return block + tls->offset;
}

// The "current" state as CPython keeps it: up to 3.11 of whatever thread holds the GIL, from 3.12
// on this thread's own, 0 while it is detached. 0 also where it is not known.
static FM_ALWAYS_INLINE uintptr_t fm_sig_current_state(void)
{
	uint64_t v;
	return fm_sig_read_u64(fm_sig_tls_address(&fm_sig.python.current), &v) ? v : 0;
}

// True when Python has a state for this thread, or for whichever runs: it has chosen its allocators
// then. Not at signal time.
static inline bool fm_sig_is_python_up(void)
{
	fm_sig_fault_check(NULL);
	return fm_sig_current_state() || (fm_sig.python.current.kind == FM_SIG_TLS_UNKNOWN &&
					  fm_sig_thread_state_listed((uint64_t)pthread_self()));
}
