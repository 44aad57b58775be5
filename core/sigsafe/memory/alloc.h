// SPDX-License-Identifier: Apache-2.0
// Allocations and copies: what the agent's hooks call. The fast path is inline and counts bytes
// down; what is below runs for the few blocks that are sampled, in the context of the allocating
// thread. It takes no lock of anybody's and calls no allocator.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "format/model.h"
#include "sigsafe/base/alloc_state.h"
#include "sigsafe/memory/live.h"

struct fm_sig_thread;

struct fm_sig_sampled {
	uint64_t id, weight; // id 0 = not sampled
};

// For a block of n bytes at p (NULL = there is none) when n was above fm_sig_alloc.allocs.left.
// errno is kept. caller: the hook's return address.
struct fm_sig_sampled fm_sig_alloc_sample_for(void *p, uint64_t n, unsigned domain, uintptr_t caller);
static inline __attribute__((always_inline)) struct fm_sig_sampled fm_sig_alloc_sample(void *p, uint64_t n,
										       unsigned domain)
{
	return fm_sig_alloc_sample_for(p, n, domain, (uintptr_t)__builtin_return_address(0));
}
// The same for n bytes that are about to be copied.
void fm_sig_copy_sample(uint64_t n);

// For what a hook does with its thread's ring or scratch memory: from enter to leave a tick of this
// thread finds it busy and goes away; so does a hook inside a signal handler of the program. NULL:
// no slot, or already inside.
struct fm_sig_thread *fm_sig_alloc_enter(void);
void fm_sig_alloc_leave(struct fm_sig_thread *t);

// The block is about to be freed: before, because afterwards another thread may be given the same
// address. Only for addresses of which fm_sig_live_may_have() says yes.
void fm_sig_alloc_freed(void *p);
// A block of which only the id is left.
void fm_sig_alloc_id_freed(uint64_t id);
// For a reallocation, which may fail: takes a block out of the table and returns its id (0 = it is
// not there), puts it back.
uint64_t fm_sig_alloc_take(void *p);
void fm_sig_alloc_give_back(void *p, uint64_t id);

// Fills t->out with the stack of the hook's caller. Without native frames, domain stays as it is.
void fm_sig_alloc_take_stack(struct fm_sig_thread *t, unsigned *domain, bool is_native_wanted);

// Counts a block that is already there.
static inline __attribute__((always_inline)) void *fm_sig_alloc_count(void *p, size_t n, unsigned domain)
{
	if (FM_UNLIKELY(n > fm_sig_alloc.allocs.left))
		fm_sig_alloc_sample(p, n, domain);
	else if (!fm_sig_alloc.depth)
		fm_sig_alloc.allocs.left -= n;
	return p;
}

// Counts n bytes ahead; false when the slow path has to be taken, and nothing is counted yet.
static inline bool fm_sig_alloc_pass(size_t n)
{
	if (FM_UNLIKELY(n > fm_sig_alloc.allocs.left))
		return false;
	fm_sig_alloc.allocs.left -= n;
	return true;
}

// For what is left of a block: a sample of this weight whatever the countdown says. Returns the id,
// 0 when it was dropped.
uint64_t fm_sig_alloc_push(const void *p, uint64_t n, uint64_t weight, unsigned domain);
