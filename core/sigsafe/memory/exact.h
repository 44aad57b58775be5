// SPDX-License-Identifier: Apache-2.0
// Exact mode: every block counted. What sampling draws by chance is looked at here for each, so the
// stack has to be cheap: it is not walked but hashed (sigsafe/memory/stack_hash.h), and only a hash
// that was never seen is walked and told of. Where native code asked, its return address and the
// height of the stack go into the hash: native frames are not walked for each block either.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "sigsafe/base/alloc_state.h"
#include "sigsafe/memory/blocks.h"
#include "sigsafe/base/state.h"
#include "wire/exact.h"

#define FM_SIG_EXACT_INDEX (4 * FM_WIRE_N_SITES)

struct fm_sig_exact {
	_Atomic uint32_t is_locked;
	bool is_collector_gone;             // or starved: a wait for it was in vain
	uint64_t n_logged, logged_ns;       // last number and last time that was given
	uint32_t n_sites;                   // in use; the sums have a copy, which others could write over
	uint32_t index[FM_SIG_EXACT_INDEX]; // by key: site, 0 = empty
	uint8_t is_told[FM_WIRE_N_SITES];   // its stack is in a ring
};

// NULL unless the mode is exact. Private, and wiped in a forked child.
extern FM_HIDDEN struct fm_sig_exact *fm_sig_exact;
// Where it says whether the process has one thread, which needs no lock: another one cannot be made
// while it is in here.
extern FM_HIDDEN const char *fm_sig_exact_alone;
void fm_sig_exact_find_alone(void);
static inline bool fm_sig_exact_is_alone(void)
{
	return *fm_sig_exact_alone != 0;
}
// False: nobody gave way for too long.
bool fm_sig_exact_lock_among_threads(void);
static inline void fm_sig_exact_unlock_among_threads(void)
{
	atomic_store_explicit(&fm_sig_exact->is_locked, 0, memory_order_release);
}

static_assert(FM_WIRE_N_SITES <= 1u << (63 - FM_SIG_TOKEN_SIZE_BITS), "a site's number fits a token");

// Whether somebody still reads (quiet.h) is asked once in so many blocks of a site: every 100 us of
// a program that does nothing else.
#define FM_SIG_EXACT_LOOK 1024u // power of two
static inline bool fm_sig_exact_is_time_to_look(const struct fm_wire_site *site)
{
	return FM_UNLIKELY(site->n_allocs % FM_SIG_EXACT_LOOK == 0);
}
void fm_sig_exact_look(struct fm_sig_thread *t);

// What the end of a block does to the sums. Under the lock; the token as it was given.
static FM_ALWAYS_INLINE void fm_sig_exact_remove(uint64_t token)
{
	fm_wire_exact_remove(fm_sig_exact_sums,
			     &fm_wire_exact_sites(fm_sig_exact_sums)[token >> FM_SIG_TOKEN_SIZE_BITS],
			     token & ((1ull << FM_SIG_TOKEN_SIZE_BITS) - 1));
}

// Counts a block that `caller` (a return address) asked for. With is_kept it is found again by its
// address. Returns its token, 0 when it was lost.
uint64_t fm_sig_exact_alloc(const void *p, uint64_t size, unsigned domain, uintptr_t caller, bool is_kept);
// The same for a block of Python's, when memory is watched; p may be NULL.
void fm_sig_exact_python_alloc(const void *p, uint64_t size, unsigned domain, uintptr_t caller);
// The same for one of pymalloc's; ts: what current_thread_state() says. Returns p.
void *fm_sig_exact_obj(void *p, uint64_t size, uint64_t ts, uintptr_t caller);
void *fm_sig_exact_mem(void *p, uint64_t size, uint64_t ts, uintptr_t caller);
// The end of a block by its address (when memory is watched), or by its token alone.
void fm_sig_exact_free(const void *p);
void fm_sig_exact_token_freed(uint64_t token);
// Waits until the ring has room for so many bytes, unless that was in vain before. False: it has
// not.
bool fm_sig_exact_wait(const struct fm_sig_thread *t, uint64_t bytes);
// Takes a block out without counting its end, and puts it back. 0 = not there.
uint64_t fm_sig_exact_take(const void *p);
void fm_sig_exact_give_back(const void *p, uint64_t token);
