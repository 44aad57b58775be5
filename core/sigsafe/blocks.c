#include "sigsafe/blocks.h"

#include "sigsafe/sigsafe.h"

struct fm_sig_blocks *fm_sig_blocks;
uint64_t *fm_sig_tokens, *fm_sig_log_ids;
uint32_t fm_sig_n_stretches;

FM_SIGSAFE __attribute__((noinline)) uint32_t fm_sig_block_claim(uint64_t addr)
{
	_Atomic uint32_t *number = &fm_sig_blocks->number_of[addr >> FM_SIG_STRETCH_LOG2 & (FM_SIG_N_STRETCHES - 1)];
	uint32_t used = atomic_load_explicit(&fm_sig_blocks->n_used, memory_order_relaxed), nobody = 0;
	do {
		if (used >= fm_sig_n_stretches)
			return atomic_load_explicit(number, memory_order_relaxed);
	} while (!atomic_compare_exchange_weak(&fm_sig_blocks->n_used, &used, used + 1));
	// Two threads at once: one part stays unused, which costs addresses and nothing else.
	return atomic_compare_exchange_strong(number, &nobody, used + 1) ? used + 1 : nobody;
}
