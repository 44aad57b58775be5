// SPDX-License-Identifier: Apache-2.0
// Exact mode: every allocation of a process, summed up by site in memory shared with the collector.
// A site is a stack of Python frames and a domain; the agent tells its stack once (FM_WIRE_SITE),
// and from then on only counts.
//
// The agent writes under a lock of its own; the collector reads what a process has left when it is
// gone, and the totals meanwhile. Nothing has to be flushed: a killed process leaves all it
// counted.
#pragma once

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/compiler.h"

#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
#define FM_WIRE_N_EXACT 2
#define FM_WIRE_N_SITES 1024u
#else
#define FM_WIRE_N_EXACT 64      // processes at one time; more are counted in n_no_exact
#define FM_WIRE_N_SITES 262144u // of a process; site 0 takes what is beyond
#endif
// From so many sites on, stacks are told apart by less, so that each block keeps its line:
// recursion counts once, and native code goes without the height of its stack; then there is no
// native code; then no caller.
#define FM_WIRE_MANY_SITES (FM_WIRE_N_SITES / 8)
#define FM_WIRE_TOO_MANY_SITES (FM_WIRE_N_SITES / 4 * 3)
#define FM_WIRE_NEARLY_ALL_SITES (FM_WIRE_N_SITES / 8 * 7)
#define FM_WIRE_EXACT_HEADER 4096u

struct fm_wire_site {
	uint64_t key; // 0 = free
	uint64_t alloc_bytes;
	uint64_t live_bytes;
	uint64_t n_allocs;   // apart from alloc_bytes: side by side, compilers make a pair of them, which takes longer
	uint64_t peak_bytes; // highest live_bytes
	uint64_t n_frees;
	// Live at the process's peak of this number; when a later one has been, nothing was touched
	// between: it is live_bytes.
	uint64_t at_peak_bytes, epoch;
};

struct fm_wire_exact {
	_Atomic uint32_t process_idx1; // who has it; 0 = free. Freed by the collector
	_Atomic uint32_t n_sites;      // sites [0, n_sites) are in use
	uint64_t live_bytes;
	uint64_t peak_bytes;         // as of the last time that live_bytes went down from its highest
	uint64_t epoch;              // number of such times
	_Atomic uint64_t high_bytes; // highest since the collector last set it to 0
	_Atomic uint64_t n_lost;     // events that were not counted: the lock or the table of blocks was not to be had
	uint64_t n_beyond;           // allocations in site 0
	_Atomic uint64_t n_unlogged; // events that were counted but did not fit the ring
};
#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
static_assert(FM_WIRE_MANY_SITES == 32768 && FM_WIRE_NEARLY_ALL_SITES == 229376,
	      "as collect/capture/facts.c tells people");
#endif
static_assert(sizeof(struct fm_wire_site) == 64, "a site is a cache line");
static_assert(sizeof(struct fm_wire_exact) <= FM_WIRE_EXACT_HEADER, "header fits its page");

#define FM_WIRE_EXACT_BYTES (FM_WIRE_EXACT_HEADER + FM_WIRE_N_SITES * 64ull)

static FM_ALWAYS_INLINE struct fm_wire_site *fm_wire_exact_sites(struct fm_wire_exact *e)
{
	return (struct fm_wire_site *)((uint8_t *)e + FM_WIRE_EXACT_HEADER);
}

// A site is brought up to date only when it is touched: it had these bytes at every peak since it
// was last.
static FM_ALWAYS_INLINE void fm_wire_site_rebase(const struct fm_wire_exact *e, struct fm_wire_site *s)
{
	if (s->epoch != e->epoch) {
		s->at_peak_bytes = s->live_bytes;
		s->epoch = e->epoch;
	}
}

static FM_ALWAYS_INLINE void fm_wire_exact_add(struct fm_wire_exact *e, struct fm_wire_site *s, uint64_t size)
{
	fm_wire_site_rebase(e, s);
	s->alloc_bytes += size;
	s->n_allocs++;
	s->live_bytes += size;
	if (s->live_bytes > s->peak_bytes)
		s->peak_bytes = s->live_bytes;
	e->live_bytes += size;
	if (e->live_bytes > atomic_load_explicit(&e->high_bytes, memory_order_relaxed))
		atomic_store_explicit(&e->high_bytes, e->live_bytes, memory_order_relaxed);
}

static FM_ALWAYS_INLINE void fm_wire_exact_remove(struct fm_wire_exact *e, struct fm_wire_site *s, uint64_t size)
{
	if (e->live_bytes > e->peak_bytes) { // a peak ends here
		e->peak_bytes = e->live_bytes;
		e->epoch++;
	}
	fm_wire_site_rebase(e, s);
	s->n_frees++;
	s->live_bytes -= size;
	e->live_bytes -= size;
}

// What the process had at its highest, and what of it was the site's.
static inline uint64_t fm_wire_exact_peak(const struct fm_wire_exact *e)
{
	return e->live_bytes > e->peak_bytes ? e->live_bytes : e->peak_bytes;
}

static inline uint64_t fm_wire_site_at_peak(const struct fm_wire_exact *e, const struct fm_wire_site *s)
{
	return e->live_bytes > e->peak_bytes || s->epoch != e->epoch ? s->live_bytes : s->at_peak_bytes;
}
