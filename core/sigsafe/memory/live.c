// SPDX-License-Identifier: Apache-2.0
#include "sigsafe/memory/live.h"

#include "sigsafe/base/raw.h"

#include "sigsafe/base/sigsafe.h"

#define PLACE_ENTRIES 8u // one cache line of keys
#define N_PLACES (FM_SIG_LIVE_ENTRIES / PLACE_ENTRIES)

struct fm_sig_live *fm_sig_live;
_Atomic uint8_t fm_sig_live_filter[FM_SIG_FILTER_BYTES] __attribute__((aligned(64)));

static FM_SIGSAFE uint32_t place(uint64_t key, unsigned nth)
{
	uint64_t hash = fm_sig_hash(key >> 4);
	return (uint32_t)((nth ? hash >> 40 : hash >> 20) & (N_PLACES - 1)) * PLACE_ENTRIES;
}

static FM_SIGSAFE void count_in_filter(const void *p, int by)
{
	_Atomic uint8_t *counter = &fm_sig_live_filter[fm_sig_live_slot(p)];
	uint8_t before = atomic_load_explicit(counter, memory_order_relaxed);
	while (before != FM_SIG_FILTER_STUCK &&
	       !atomic_compare_exchange_weak_explicit(counter, &before, (uint8_t)(before + by), memory_order_relaxed,
						      memory_order_relaxed))
		;
}

static FM_SIGSAFE unsigned count_empty(const struct fm_sig_live *live, uint32_t from)
{
	unsigned n = 0;
	for (uint32_t i = from; i < from + PLACE_ENTRIES; i++)
		n += !atomic_load_explicit(&live->keys[i], memory_order_relaxed);
	return n;
}

FM_SIGSAFE bool fm_sig_live_add(const void *p, uint64_t id)
{
	struct fm_sig_live *live = fm_sig_live;
	uint32_t places[2] = { place((uintptr_t)p, 0), place((uintptr_t)p, 1) };
	// The emptier one first: so hardly any place is full before the table is.
	unsigned first = count_empty(live, places[0]) < count_empty(live, places[1]);
	for (unsigned nth = 0; nth < 2; nth++)
		for (uint32_t i = places[nth ^ first], end = i + PLACE_ENTRIES; i < end; i++) {
			uint64_t empty = 0;
			if (atomic_load_explicit(&live->keys[i], memory_order_relaxed) ||
			    !atomic_compare_exchange_strong_explicit(&live->keys[i], &empty, (uintptr_t)p,
								     memory_order_acquire, memory_order_relaxed))
				continue;
			// Whoever frees the block has got it from us by some synchronisation of the
			// program's own.
			atomic_store_explicit(&live->ids[i], id, memory_order_relaxed);
			atomic_fetch_add_explicit(&live->n, 1, memory_order_relaxed);
			count_in_filter(p, 1);
			return true;
		}
	return false;
}

FM_SIGSAFE uint64_t fm_sig_live_remove(const void *p)
{
	struct fm_sig_live *live = fm_sig_live;
	if (!live || !p)
		return 0;
	for (unsigned nth = 0; nth < 2; nth++)
		for (uint32_t i = place((uintptr_t)p, nth), end = i + PLACE_ENTRIES; i < end; i++) {
			if (atomic_load_explicit(&live->keys[i], memory_order_relaxed) != (uintptr_t)p)
				continue;
			uint64_t id = atomic_load_explicit(&live->ids[i], memory_order_relaxed);
			atomic_store_explicit(&live->keys[i], 0, memory_order_release);
			atomic_fetch_sub_explicit(&live->n, 1, memory_order_relaxed);
			count_in_filter(p, -1);
			return id;
		}
	return 0;
}

FM_SIGSAFE unsigned fm_sig_live_pressure(void)
{
	// A thread of the last capture that was put off the CPU in the middle may count down what
	// was cleared.
	int32_t n = (int32_t)atomic_load_explicit(&fm_sig_live->n, memory_order_relaxed);
	int32_t half = FM_SIG_LIVE_ENTRIES / 4;
	// "Full" is half of the entries: beyond that, some address would find both its places
	// taken.
	return n < half ? 0 : (unsigned)((n - half) / (half / 16)) + 1;
}

FM_SIGSAFE void fm_sig_live_mark(const void *p)
{
	atomic_store_explicit(&fm_sig_live_filter[fm_sig_live_slot(p)], FM_SIG_FILTER_STUCK, memory_order_relaxed);
}

FM_SIGSAFE void fm_sig_live_forget_all(void)
{
	for (uint32_t i = 0; i < FM_SIG_FILTER_BYTES; i++)
		if (atomic_load_explicit(&fm_sig_live_filter[i], memory_order_relaxed) != FM_SIG_FILTER_STUCK)
			atomic_store_explicit(&fm_sig_live_filter[i], 0, memory_order_relaxed);
}
