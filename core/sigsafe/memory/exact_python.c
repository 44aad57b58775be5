// SPDX-License-Identifier: Apache-2.0
// Nearly every block: one of Python's, that the interpreter itself asked for, in a thread that has
// counted before. What is not as it mostly is goes to exact.c, one step at a time.
#include "sigsafe/memory/exact_quick.h"
#include "sigsafe/memory/stack_compare.h"
#include "sigsafe/python/thread_state.h"

#include "sigsafe/base/sigsafe.h"

// In a thread whose stack was looked at before, by the interpreter itself.
static FM_ALWAYS_INLINE bool is_simple(const struct fm_sig_alloc_thread *a, uintptr_t caller)
{
	const struct fm_sig_frame_cache *m = a->frame_cache;
	if (FM_UNLIKELY(!m))
		return false;
	if (FM_UNLIKELY(a->is_inside))
		return false;
	return FM_LIKELY(caller - m->layout.image_start < m->layout.image_bytes);
}

// Puts the block into its entry and its bytes into the sums; false: an entry is not to be had, or
// taken.
static FM_ALWAYS_INLINE bool count(const void *p, uint64_t size, const struct fm_sig_memo *memo)
{
	uintptr_t entries = fm_sig_block_stretch((uintptr_t)p);
	if (FM_UNLIKELY(!entries))
		return false;
	uint64_t *at = fm_sig_block_even_entry((uintptr_t)p, entries);
	if (FM_UNLIKELY(*at != 0))
		return false;
	*at = memo->token | size;
	fm_wire_exact_add(fm_sig_exact_sums, memo->site, size);
	if (fm_sig_exact_is_time_to_look(memo->site))
		fm_sig_exact_look(fm_sig_self);
	return true;
}

// The same stack but for some instructions and functions on it, or other threads beside this one.
// is_simple() has said yes.
static FM_SIGSAFE __attribute__((noinline)) void *count_further(void *p, uint64_t size, unsigned domain)
{
	struct fm_sig_alloc_thread *a = &fm_sig_alloc;
	struct fm_sig_thread *t = fm_sig_self;
	bool is_counted = false;
	if (FM_LIKELY(!t->is_busy)) {
		uint64_t ts = fm_sig_current_state();
		t->is_busy = true; // its scratch memory is used
		fm_sig_exact_enter(a);
		const struct fm_sig_memo *memo = fm_sig_mirror_follow(t, ts, domain);
		if (FM_LIKELY(memo && (fm_sig_exact_is_alone() || fm_sig_exact_lock_among_threads()))) {
			is_counted = count(p, size, memo);
			fm_sig_exact_unlock_among_threads();
		}
		fm_sig_exact_leave(a);
		t->is_busy = false;
	}
	if (FM_UNLIKELY(!is_counted))
		fm_sig_exact_python_alloc(p, size, domain, a->frame_cache->layout.image_start);
	return p;
}

// The last stack once more, but for the innermost instruction.
static FM_ALWAYS_INLINE void *count_quickly(void *p, uint64_t size, uint64_t ts, unsigned domain, bool is_lasti_pointer)
{
	struct fm_sig_alloc_thread *a = &fm_sig_alloc;
	fm_sig_exact_enter(a);
	const struct fm_sig_memo *memo = fm_sig_mirror_recall(a->frame_cache, ts, domain, is_lasti_pointer);
	bool is_counted = memo && count(p, size, memo);
	fm_sig_exact_leave(a);
	if (FM_UNLIKELY(!is_counted))
		return count_further(p, size, domain);
	return p;
}

// Up to 3.10: with more to compare. Apart, for the sake of the registers that it takes.
static FM_SIGSAFE __attribute__((noinline)) void *count_old_frames(void *p, uint64_t size, uint64_t ts, unsigned domain)
{
	return domain == FM_ALLOC_OBJ ? count_quickly(p, size, ts, FM_ALLOC_OBJ, false)
				      : count_quickly(p, size, ts, FM_ALLOC_MEM, false);
}

static FM_SIGSAFE __attribute__((noinline, cold)) void *count_slowly(void *p, uint64_t size, unsigned domain,
								     uintptr_t caller)
{
	fm_sig_exact_python_alloc(p, size, domain, caller);
	return p;
}

static FM_ALWAYS_INLINE void *choose(void *p, uint64_t size, uint64_t ts, uintptr_t caller, unsigned domain)
{
	struct fm_sig_alloc_thread *a = &fm_sig_alloc;
	if (FM_UNLIKELY(!is_simple(a, caller) || (uintptr_t)p & 8))
		return count_slowly(p, size, domain, caller);
	if (FM_UNLIKELY(!fm_sig_exact_is_alone()))
		return count_further(p, size, domain);
	if (FM_UNLIKELY(!a->frame_cache->layout.is_lasti_pointer))
		return count_old_frames(p, size, ts, domain);
	return count_quickly(p, size, ts, domain, true);
}

FM_SIGSAFE void *fm_sig_exact_obj(void *p, uint64_t size, uint64_t ts, uintptr_t caller)
{
	return choose(p, size, ts, caller, FM_ALLOC_OBJ);
}

FM_SIGSAFE void *fm_sig_exact_mem(void *p, uint64_t size, uint64_t ts, uintptr_t caller)
{
	return choose(p, size, ts, caller, FM_ALLOC_MEM);
}
