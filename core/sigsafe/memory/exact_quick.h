// SPDX-License-Identifier: Apache-2.0
// Exact mode's shortest way: what is inline of it, for exact*.c and the hooks of
// agent/memory_python.c.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "sigsafe/memory/alloc.h"
#include "sigsafe/memory/blocks.h"
#include "sigsafe/memory/exact.h"

// A signal handler of the program that comes between these two counts nothing itself.
static FM_ALWAYS_INLINE void fm_sig_exact_enter(struct fm_sig_alloc_thread *a)
{
	a->has_lock = true;
	atomic_signal_fence(memory_order_seq_cst);
}

static FM_ALWAYS_INLINE void fm_sig_exact_leave(struct fm_sig_alloc_thread *a)
{
	atomic_signal_fence(memory_order_seq_cst);
	a->has_lock = false;
}

// Counts the end of a block of pymalloc's, if it was counted; false: nothing is done yet.
static FM_ALWAYS_INLINE bool fm_sig_exact_free_quickly(const void *p)
{
	if (FM_UNLIKELY(!atomic_load_explicit(&fm_sig_exact_is_quick, memory_order_relaxed)))
		return false;
	if (FM_UNLIKELY((uintptr_t)p & 8))
		return false;
	uintptr_t entries = fm_sig_block_stretch((uintptr_t)p);
	if (!entries)
		return true;
	uint64_t *at = fm_sig_block_even_entry((uintptr_t)p, entries), token = *at;
	if (!token)
		return true;
	struct fm_sig_alloc_thread *a = &fm_sig_alloc;
	if (FM_UNLIKELY((int64_t)token < 0)) // FM_SIG_TOKEN_WATCHED
		return false;
	if (FM_UNLIKELY(a->has_lock))
		return false;
	if (FM_UNLIKELY(!fm_sig_exact_is_alone()))
		return false;
	fm_sig_exact_enter(a);
	*at = 0;
	fm_sig_exact_remove(token);
	fm_sig_exact_leave(a);
	return true;
}
