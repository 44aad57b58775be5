// SPDX-License-Identifier: Apache-2.0
#include "sigsafe/memory/maps.h"

#include "sigsafe/memory/alloc.h"
#include "sigsafe/base/state.h"

#include "sigsafe/base/sigsafe.h"

#define MAX_TRIES 10000u // of the lock; who has it writes some words

struct fm_sig_maps *fm_sig_maps;

// Ours alone, and held for one search at most. A signal handler of the program that unmaps while
// its own thread has it gives up.
static FM_SIGSAFE bool lock(void)
{
	for (unsigned i = 0; fm_sig_maps && i < MAX_TRIES; i++)
		if (!atomic_exchange_explicit(&fm_sig_maps->is_locked, 1, memory_order_acquire))
			return true;
	return false;
}

static FM_SIGSAFE void unlock(void)
{
	atomic_store_explicit(&fm_sig_maps->is_locked, 0, memory_order_release);
}

static FM_SIGSAFE bool keep(uint64_t start, uint64_t end, struct fm_sig_sampled sampled)
{
	bool is_kept = false;
	if (!lock())
		return false;
	uint32_t i = 0;
	while (i < fm_sig_maps->n && fm_sig_maps->maps[i].end)
		i++;
	if (i < FM_SIG_MAX_MAPS) {
		fm_sig_maps->maps[i] =
			(struct fm_sig_map){ start, end, sampled.id, sampled.weight, fm_sig_alloc.log_id };
		if (i == fm_sig_maps->n)
			fm_sig_maps->n++;
		is_kept = true;
	}
	unlock();
	return is_kept;
}

static FM_SIGSAFE void keep_or_forget(uint64_t start, uint64_t end, struct fm_sig_sampled sampled)
{
	if (sampled.id && !keep(start, end, sampled))
		fm_sig_alloc_id_freed(sampled.id); // its end would never be seen
}

FM_SIGSAFE void fm_sig_map_added(uintptr_t start, uint64_t size)
{
	struct fm_sig_alloc_thread *a = &fm_sig_alloc;
	if (size > a->allocs.left)
		keep_or_forget(start, start + size, fm_sig_alloc_sample((void *)start, size, FM_ALLOC_MMAP));
	else if (!a->depth)
		a->allocs.left -= size;
}

// Takes one mapping that overlaps out of the list.
static FM_SIGSAFE bool take_out(uint64_t start, uint64_t end, struct fm_sig_map *ret)
{
	bool is_found = false;
	if (!lock())
		return false;
	for (uint32_t i = 0; i < fm_sig_maps->n && !is_found; i++) {
		struct fm_sig_map *map = &fm_sig_maps->maps[i];
		if (map->end && map->start < end && map->end > start) {
			*ret = *map;
			map->end = 0;
			is_found = true;
		}
	}
	unlock();
	return is_found;
}

// The rest of a mapping stands for its share of the whole's weight.
static FM_SIGSAFE void add_rest(const struct fm_sig_map *map, uint64_t start, uint64_t end)
{
	uint64_t size = map->end - map->start;
	struct fm_sig_sampled rest = { 0 };
	if (start >= end)
		return;
	// In pages: neither product nor quotient is longer than a word.
	rest.weight = map->weight / (size >> 12 ? size >> 12 : 1) * ((end - start) >> 12 ? (end - start) >> 12 : 1);
	rest.id = fm_sig_alloc_push((void *)start, end - start, rest.weight, FM_ALLOC_MMAP);
	keep_or_forget(start, end, rest);
}

FM_SIGSAFE void fm_sig_map_removed(uintptr_t start, uint64_t size)
{
	struct fm_sig_map map;
	uint64_t end = start + ((size + 4095) & ~4095ull);
	for (uint32_t n = 0; n < FM_SIG_MAX_MAPS && take_out(start, end, &map); n++) {
		fm_sig_alloc.log_id = map.log_id;
		fm_sig_alloc_id_freed(map.id);
		add_rest(&map, map.start, start);
		add_rest(&map, end, map.end);
	}
}

FM_SIGSAFE bool fm_sig_map_overlaps(uintptr_t start, uint64_t size)
{
	bool is_found = false;
	if (!lock())
		return false;
	for (uint32_t i = 0; i < fm_sig_maps->n && !is_found; i++) {
		const struct fm_sig_map *map = &fm_sig_maps->maps[i];
		is_found = map->end && map->start < start + size && map->end > start;
	}
	unlock();
	return is_found;
}
