// SPDX-License-Identifier: Apache-2.0
// Blocks that were sampled and are not freed yet: address to id. Safe between threads, without
// locks: an address belongs to one thread at a time, the one that has just been given the block or
// is about to give it back.
//
// Two places for every address, each eight entries in one cache line of keys: a look touches two
// lines at most and needs no marks for what was deleted. In front of it a filter of 64 KiB
// counters, which nearly always says "not one of these"; it is never believed when it says yes.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FM_SIG_LIVE_ENTRIES (1u << 18) // power of two
#define FM_SIG_FILTER_BYTES (1u << 16) // by bits 4 to 19 of an address: neighbours in memory share a cache line

struct fm_sig_live {
	_Atomic uint64_t keys[FM_SIG_LIVE_ENTRIES]; // address, 0 = empty
	_Atomic uint64_t ids[FM_SIG_LIVE_ENTRIES];
	_Atomic uint32_t n;
};

// NULL until the agent has mapped it; anonymous and wiped in a forked child, which did not make
// these blocks.
extern struct fm_sig_live *fm_sig_live;
extern _Atomic uint8_t fm_sig_live_filter[FM_SIG_FILTER_BYTES] __attribute__((visibility("hidden")));

#define FM_SIG_FILTER_STUCK UINT8_MAX // counts no more, up or down

static inline unsigned fm_sig_live_slot(const void *p)
{
	return (uint16_t)((uintptr_t)p >> 4);
}

// False: p is not in the table. True: it may be.
static inline bool fm_sig_live_may_have(const void *p)
{
	return atomic_load_explicit(&fm_sig_live_filter[fm_sig_live_slot(p)], memory_order_relaxed) != 0;
}

// False when there is no room.
bool fm_sig_live_add(const void *p, uint64_t id);
// Takes p out and returns its id; 0 when it was not there.
uint64_t fm_sig_live_remove(const void *p);

// How often to double the mean so that the table does not fill: none up to half full, then once
// more for each 32nd part. Filling the second half takes 2^17 times the memory that filled the
// first.
unsigned fm_sig_live_pressure(void);

// Marks p for good, so that its freeing takes the slow path: a block that is not the allocator's.
void fm_sig_live_mark(const void *p);
// In a forked child.
void fm_sig_live_forget_all(void);
