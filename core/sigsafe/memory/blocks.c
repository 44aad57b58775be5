// SPDX-License-Identifier: Apache-2.0
#include "sigsafe/memory/blocks.h"

#include "sigsafe/base/sigsafe.h"

struct fm_sig_blocks *fm_sig_blocks;
uint64_t *fm_sig_tokens, *fm_sig_log_ids;
uint32_t fm_sig_n_stretches;

FM_SIGSAFE __attribute__((noinline)) uintptr_t fm_sig_block_claim(uint64_t addr)
{
	_Atomic uintptr_t *at = &fm_sig_blocks->entries_of[addr >> FM_SIG_STRETCH_LOG2 & (FM_SIG_N_STRETCHES - 1)];
	uint32_t used = atomic_load_explicit(&fm_sig_blocks->n_used, memory_order_relaxed);
	do {
		if (used >= fm_sig_n_stretches)
			return atomic_load_explicit(at, memory_order_relaxed);
	} while (!atomic_compare_exchange_weak(&fm_sig_blocks->n_used, &used, used + 1));
	// Two threads at once: one part stays unused, which costs addresses and nothing else.
	uintptr_t first = (uintptr_t)(fm_sig_tokens + ((uint64_t)used << FM_SIG_STRETCH_ENTRIES_LOG2));
	uintptr_t ours = first - (addr >> FM_SIG_STRETCH_LOG2 << (FM_SIG_STRETCH_LOG2 - 1)), theirs = 0;
	return atomic_compare_exchange_strong(at, &theirs, ours) ? ours : theirs;
}

FM_SIGSAFE void fm_sig_block_watch(const void *p)
{
	uint64_t *at = fm_sig_blocks ? fm_sig_block_get(p) : NULL;
	if (at && !(*at & FM_SIG_TOKEN_WATCHED))
		*at |= FM_SIG_TOKEN_WATCHED;
}
