// SPDX-License-Identifier: Apache-2.0
#include "sigsafe/python/stack.h"

#include "base/compiler.h"
#include "sigsafe/unwind/unwind.h"

#include "sigsafe/base/sigsafe.h"

FM_SIGSAFE void fm_sig_stack_refresh(struct fm_sig_thread *t)
{
	// Both only grow, so their sum tells when either changed.
	uint32_t generation = atomic_load_explicit(&fm_sig.unload_generation, memory_order_acquire) +
			      atomic_load_explicit(&fm_sig.header->rows_generation, memory_order_acquire);
	if (FM_UNLIKELY(t->rows_generation != generation)) {
		t->rows_generation = generation;
		for (uint32_t i = 0; i < FM_SIG_ROWS; i++)
			t->rows[i].kind = FM_SIG_ROW_EMPTY;
		for (uint32_t i = 0; i < FM_SIG_RANGES; i++)
			t->ranges[i].size = 0;
		t->n_prev = 0; // the same address may be another function now: the next stack is written whole
	}
}

FM_SIGSAFE uint32_t fm_sig_stack_n_shared(const struct fm_sig_thread *t)
{
	uint32_t n = t->n_out, n_shared = 0;
	uint32_t most = n < t->n_prev ? n : t->n_prev;
	while (n_shared < most && t->prev[n_shared] == t->out[n - 1 - n_shared])
		n_shared++;
	return n_shared;
}

FM_SIGSAFE void fm_sig_stack_published(struct fm_sig_thread *t, uint32_t n_shared)
{
	for (uint32_t i = n_shared; i < t->n_out; i++)
		t->prev[i] = t->out[t->n_out - 1 - i];
	t->n_prev = t->n_out;
}
