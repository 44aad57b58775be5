// SPDX-License-Identifier: Apache-2.0
// Exact mode: blocks that live, address to token (site and size). No search: the address is the
// place. Blocks that lie side by side have entries side by side, so that a program which touches
// its memory in order has our part of it in the cache, too.
//
// Addresses are cut into stretches of 64 MiB; a stretch gets its entries, 8 bytes for each 16, when
// the first block in it is seen. Only touched pages of these exist: at most half as much again as
// the program's small blocks, and 4 KiB for a large one.
//
// No lock: an entry belongs to the thread that has just been given the block, or is about to give
// it back.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

// A token: the site's number above these bits, the size below. 0 = the block is not counted.
#define FM_SIG_TOKEN_SIZE_BITS 44
// In a token: whoever knows this block wants to know when it ends (sigsafe/memory/stack_hash.c: a
// code object). Alone: it is not counted.
#define FM_SIG_TOKEN_WATCHED (1ull << 63)

#define FM_SIG_STRETCH_LOG2 26
#define FM_SIG_N_STRETCHES (1u << (47 - FM_SIG_STRETCH_LOG2)) // of all addresses that a program can have
// Entries of a stretch: first those of addresses that 16 divides, which nearly all are; then those
// 8 bytes beyond.
#define FM_SIG_STRETCH_ENTRIES_LOG2 (FM_SIG_STRETCH_LOG2 - 3)
#define FM_SIG_STRETCH_BYTES (8ull << FM_SIG_STRETCH_ENTRIES_LOG2)
#define FM_SIG_MAX_STRETCHES 1024u // 64 GiB of addresses with blocks in them

struct fm_sig_blocks {
	_Atomic uint32_t n_used;
	// Where the entry of address 0 would be, if that lay in the stretch: the place of others is
	// one sum away. 0 = none yet.
	_Atomic uintptr_t entries_of[FM_SIG_N_STRETCHES];
};

// NULL unless the mode is exact. Private, and wiped in a forked child.
extern FM_HIDDEN struct fm_sig_blocks *fm_sig_blocks;
extern FM_HIDDEN uint64_t *fm_sig_tokens;
extern FM_HIDDEN uint64_t *fm_sig_log_ids; // with a log: the number of each block, in the same place; else NULL
extern uint32_t fm_sig_n_stretches;        // there is room for so many in fm_sig_tokens

// Gives a stretch its entries. 0 when there is no room.
uintptr_t fm_sig_block_claim(uint64_t addr);
// Marks a block that is there, counted or not, with FM_SIG_TOKEN_WATCHED.
void fm_sig_block_watch(const void *p);

static inline uint64_t *fm_sig_block_entry(uint64_t addr, uintptr_t entries)
{
	return (uint64_t *)(entries + (addr >> 1 & ~7ull) + (addr & 8) * (FM_SIG_STRETCH_BYTES / 16));
}

// The same for an address that 16 divides.
static inline uint64_t *fm_sig_block_even_entry(uint64_t addr, uintptr_t entries)
{
	return (uint64_t *)(entries + (addr >> 1));
}

static inline uintptr_t fm_sig_block_stretch(uint64_t addr)
{
	// Acquire on nothing: entries are zero from the start.
	return atomic_load_explicit(&fm_sig_blocks->entries_of[addr >> FM_SIG_STRETCH_LOG2 & (FM_SIG_N_STRETCHES - 1)],
				    memory_order_relaxed);
}

// Where the token of a block is, 0 = not counted; NULL when nothing is known of its stretch.
static inline uint64_t *fm_sig_block_find(const void *p)
{
	uintptr_t entries = fm_sig_block_stretch((uintptr_t)p);
	return FM_LIKELY(entries != 0) ? fm_sig_block_entry((uintptr_t)p, entries) : NULL;
}

// Where the number of a block in the log is, by where its token is.
static inline uint64_t *fm_sig_block_log_id(const uint64_t *token)
{
	return fm_sig_log_ids + (token - fm_sig_tokens);
}

// The same for a new block; NULL when there is no room.
static inline uint64_t *fm_sig_block_get(const void *p)
{
	uintptr_t entries = fm_sig_block_stretch((uintptr_t)p);
	if (FM_UNLIKELY(entries == 0))
		entries = fm_sig_block_claim((uintptr_t)p);
	return FM_LIKELY(entries != 0) ? fm_sig_block_entry((uintptr_t)p, entries) : NULL;
}
