// SPDX-License-Identifier: Apache-2.0
#include "sigsafe/memory/exact.h"

#include <time.h>

#include "base/clock.h"
#include "format/model.h"
#include "sigsafe/memory/alloc.h"
#include "sigsafe/memory/blocks.h"
#include "sigsafe/memory/exact_log.h"
#include "sigsafe/memory/exact_quick.h"
#include "sigsafe/python/python.h"
#include "sigsafe/memory/stack_compare.h"
#include "sigsafe/base/quiet.h"
#include "sigsafe/base/raw.h"
#include "sigsafe/base/ring.h"
#include "sigsafe/python/stack.h"

#include "sigsafe/base/sigsafe.h"

// Of the lock. Who has it counts one event, unless it was put off the CPU meanwhile: then it is
// some milliseconds.
#define TRIES 1024u
#define NAP_NS 20000
#define MAX_NAPS 1000u
// Of the ring, before a stack is told: the names of its functions go with it.
#define ROOM_TO_TELL (FM_WIRE_RING_BYTES / 4)

struct fm_sig_exact *fm_sig_exact;
struct fm_wire_exact *fm_sig_exact_sums;
_Atomic bool fm_sig_exact_is_quick;

// glibc 2.32 and later: not 0 while the process has one thread. Older ones do not have it.
extern char __libc_single_threaded __attribute__((weak));
static const char never = 0;
const char *fm_sig_exact_alone = &never;

FM_SIGSAFE void fm_sig_exact_find_alone(void)
{
	fm_sig_exact_alone = &__libc_single_threaded ? &__libc_single_threaded : &never;
}

static FM_SIGSAFE void count_lost(void)
{
	atomic_fetch_add_explicit(&fm_sig_exact_sums->n_lost, 1, memory_order_relaxed);
}

FM_SIGSAFE __attribute__((noinline)) bool fm_sig_exact_lock_among_threads(void)
{
	for (unsigned i = 0; i < MAX_NAPS; i++) {
		for (unsigned k = 0; k < TRIES; k++)
			if (!atomic_load_explicit(&fm_sig_exact->is_locked, memory_order_relaxed) &&
			    !atomic_exchange_explicit(&fm_sig_exact->is_locked, 1, memory_order_acquire))
				return true;
		struct timespec nap = { .tv_nsec = NAP_NS };
		fm_system_call(SYS_nanosleep, (long)&nap, 0, 0, 0);
	}
	return false;
}

// Ours alone. A signal handler of the program that allocates while its own thread has it, and a
// thread that waits too long for another one that was put off the CPU, give up; that is counted.
static FM_ALWAYS_INLINE bool lock(void)
{
	if (FM_LIKELY(!fm_sig_alloc.has_lock)) {
		fm_sig_exact_enter(&fm_sig_alloc);
		if (fm_sig_exact_is_alone() || fm_sig_exact_lock_among_threads())
			return true;
		fm_sig_exact_leave(&fm_sig_alloc);
	}
	count_lost();
	return false;
}

static FM_ALWAYS_INLINE void unlock(void)
{
	fm_sig_exact_unlock_among_threads();
	fm_sig_exact_leave(&fm_sig_alloc);
}

FM_SIGSAFE __attribute__((noinline, cold)) void fm_sig_exact_look(struct fm_sig_thread *t)
{
	if (atomic_load_explicit(&fm_sig.counts->is_over, memory_order_relaxed))
		fm_sig_quiet_end(); // which the shortest way does not see by itself
	else
		fm_sig_quiet_poll(t, fm_now_ns());
}

// ---- sites ----

// Whether native code is a part of the site: who asked is no part of the interpreter.
// PyMem_RawMalloc and its kin ask for others.
static FM_ALWAYS_INLINE bool is_native(uintptr_t caller)
{
	const struct fm_sig_python *py = &fm_sig.python;
	return (caller - py->image_start >= py->image_end - py->image_start ||
		caller - fm_sig.raw_malloc_start < fm_sig.raw_malloc_end - fm_sig.raw_malloc_start) &&
	       !(fm_sig.header->flags & FM_WIRE_NO_NATIVE);
}

// Native frames are told once for each site, as they were then: below the same caller at the same
// height they are the same, but for code that recurses or jumps around in its own stack.
static FM_ALWAYS_INLINE uint64_t hash_native(uint64_t h, uintptr_t caller, uintptr_t height, enum fm_sig_hash_of of)
{
	return mix(mix(h, caller), of == FM_SIG_HASH_WHOLE ? height : 0);
}

static FM_ALWAYS_INLINE enum fm_sig_hash_of what_to_hash(uint32_t n_sites)
{
	return FM_LIKELY(n_sites < FM_WIRE_MANY_SITES) ? FM_SIG_HASH_WHOLE
	       : n_sites < FM_WIRE_NEARLY_ALL_SITES    ? FM_SIG_HASH_FOLDED
						       : FM_SIG_HASH_INNERMOST;
}

static FM_SIGSAFE __attribute__((noinline)) uint32_t find_site_further(uint64_t key, uint32_t i)
{
	struct fm_wire_site *sites = fm_wire_exact_sites(fm_sig_exact_sums);
	uint32_t n = fm_sig_exact->n_sites;
	for (; fm_sig_exact->index[i]; i = (i + 1) & (FM_SIG_EXACT_INDEX - 1))
		if (sites[fm_sig_exact->index[i]].key == key)
			return fm_sig_exact->index[i];
	if (n == FM_WIRE_N_SITES) {
		fm_sig_exact_sums->n_beyond++;
		return 0;
	}
	n = n ? n : 1;
	sites[n].key = key;
	fm_sig_exact->index[i] = n;
	fm_sig_exact->n_sites = n + 1;
	atomic_store_explicit(&fm_sig_exact_sums->n_sites, n + 1, memory_order_release);
	return n;
}

// The site of a key; a new one when it was never seen. Under the lock. Site 0 has no key: where
// nothing is, nothing is found.
static FM_ALWAYS_INLINE uint32_t find_site(uint64_t key)
{
	uint32_t i = (uint32_t)(key >> 40) & (FM_SIG_EXACT_INDEX - 1), site = fm_sig_exact->index[i];
	return FM_LIKELY(fm_wire_exact_sites(fm_sig_exact_sums)[site].key == key) ? site : find_site_further(key, i);
}

FM_SIGSAFE bool fm_sig_exact_wait(const struct fm_sig_thread *t, uint64_t bytes)
{
	bool has_room = fm_sig_exact->is_collector_gone ? fm_sig_ring_has_room(t, bytes) : fm_sig_ring_wait(t, bytes);
	fm_sig_exact->is_collector_gone = !has_room;
	return has_room;
}

static FM_ALWAYS_INLINE bool is_python(uint64_t frame)
{
	return frame >> FM_WIRE_FRAME_SHIFT == FM_WIRE_FRAME_PYTHON;
}

// A call that stands further out already is left out: recursion counts once.
static FM_SIGSAFE void fold_recursion(struct fm_sig_thread *t)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < t->n_out; i++) {
		bool is_seen_outside = false;
		uint32_t end = FM_MIN(t->n_out, i + FM_SIG_MIRROR_DEEP); // as fm_sig_mirror_hash_less() does
		for (uint32_t k = i + 1; is_python(t->out[i]) && k < end && !is_seen_outside; k++)
			is_seen_outside = t->out[k] == t->out[i];
		if (!is_seen_outside)
			t->out[n++] = t->out[i];
	}
	t->n_out = n;
}

static FM_SIGSAFE void leave_out_callers(struct fm_sig_thread *t)
{
	uint32_t n = 0;
	while (n < t->n_out && !is_python(t->out[n]))
		n++;
	t->n_out = FM_MIN(n + 1, t->n_out);
}

// Tells the stack of a site that was seen first, or whose telling found no room before. Site 0 has
// many.
static FM_SIGSAFE __attribute__((noinline, cold)) void tell(struct fm_sig_thread *t, uint32_t site, unsigned domain,
							    bool has_native)
{
	if (!site)
		return;
	fm_sig_exact_wait(t, ROOM_TO_TELL);
	t->now_ns = fm_now_ns();
	fm_sig_stack_refresh(t);
	fm_sig_alloc_take_stack(t, &domain, has_native);
	if (!has_native && !t->n_python && !(fm_sig.header->flags & FM_WIRE_NO_NATIVE))
		t->n_out = 0; // the interpreter's own, at its start and end: many places are one site
	// As the site's key has it.
	enum fm_sig_hash_of of = t->frame_cache ? t->frame_cache->of : FM_SIG_HASH_WHOLE;
	if (of == FM_SIG_HASH_FOLDED)
		fold_recursion(t);
	else if (of == FM_SIG_HASH_INNERMOST)
		leave_out_callers(t);
	uint32_t n_shared = fm_sig_stack_n_shared(t), n_own = t->n_out - n_shared;
	struct fm_wire_site_stack *rec =
		fm_sig_ring_reserve(t, FM_WIRE_SITE, sizeof(*rec) + (uint64_t)n_own * sizeof(uint64_t));
	if (!rec)
		return;
	rec->time_ns = t->now_ns;
	rec->site = site;
	rec->n_frames = t->n_out;
	rec->n_shared = n_shared;
	rec->domain = (uint8_t)domain;
	rec->reserved[0] = rec->reserved[1] = rec->reserved[2] = 0;
	for (uint32_t i = 0; i < n_own; i++)
		rec->frames[i] = t->out[i];
	fm_sig_stack_published(t, n_shared);
	fm_sig_ring_commit(t, &rec->rec);
	fm_sig_exact->is_told[site] = 1;
}

// ---- events ----

// What is left to count of a block that ends. One that was watched may be another's from now on.
static FM_ALWAYS_INLINE uint64_t token_of_end(const void *p, uint64_t token)
{
	if (FM_UNLIKELY(token & FM_SIG_TOKEN_WATCHED)) {
		fm_sig_code_forget((uintptr_t)p);
		atomic_fetch_add_explicit(&fm_sig_mirror_epoch, 1, memory_order_relaxed);
	}
	return token & ~FM_SIG_TOKEN_WATCHED;
}

static FM_ALWAYS_INLINE bool is_on(void)
{
	return atomic_load_explicit(&fm_sig_alloc_is_on, memory_order_acquire) && !fm_sig_is_over();
}

static FM_ALWAYS_INLINE struct fm_sig_thread *enter(void)
{
	struct fm_sig_thread *t = fm_sig_self;
	if (FM_UNLIKELY(fm_sig_alloc.has_lock)) // a signal handler of the program: its stack is being looked at
		return NULL;
	if (FM_UNLIKELY(!t || !t->slot || t->is_busy || fm_sig.is_late))
		return fm_sig_alloc_enter(); // which may find a slot, and counts who is inside a late capture
	t->is_busy = true;
	atomic_signal_fence(memory_order_seq_cst);
	return t;
}

static FM_ALWAYS_INLINE void leave(struct fm_sig_thread *t)
{
	if (FM_UNLIKELY(fm_sig.is_late)) {
		fm_sig_alloc_leave(t);
		return;
	}
	atomic_signal_fence(memory_order_seq_cst);
	t->is_busy = false;
}

// A number and a time for an event; under the lock, so that their order is that of the sums.
static FM_SIGSAFE uint64_t log_time(void)
{
	fm_sig_exact->logged_ns = FM_MAX(fm_now_ns(), fm_sig_exact->logged_ns + 1);
	return fm_sig_exact->logged_ns;
}

// Tells the end of a block that has a number.
static FM_SIGSAFE __attribute__((noinline, cold)) void log_death(uint64_t log_id, uint64_t log_ns)
{
	struct fm_sig_thread *t = enter();
	if (t) {
		fm_sig_log_died(t, log_id, log_ns);
		leave(t);
	} else {
		atomic_fetch_add_explicit(&fm_sig_exact_sums->n_unlogged, 1, memory_order_relaxed);
	}
}

// What a new block does to the sums. Under the lock. `at` is where it is kept; NULL = it is not
// found by its address.
static FM_ALWAYS_INLINE uint32_t sum_up(uint64_t key, const void *p, uint64_t *at, uint64_t size)
{
	uint32_t site = find_site(key);
	if (at) {
		uint64_t lost = FM_UNLIKELY(*at != 0) ? token_of_end(p, *at) : 0;
		if (FM_UNLIKELY(lost != 0))
			fm_sig_exact_remove(lost);
		*at = (uint64_t)site << FM_SIG_TOKEN_SIZE_BITS | size;
	}
	fm_wire_exact_add(fm_sig_exact_sums, &fm_wire_exact_sites(fm_sig_exact_sums)[site], size);
	return site;
}

// The same, with what the log wants.
static FM_SIGSAFE __attribute__((noinline, cold)) uint32_t sum_up_and_log(struct fm_sig_thread *t, uint64_t key,
									  const void *p, uint64_t *at, uint64_t size,
									  unsigned domain, bool has_native)
{
	bool is_logged = fm_sig_log_is_on();
	uint64_t lost_id = is_logged && at && *at ? *fm_sig_block_log_id(at) : 0, lost_ns = lost_id ? log_time() : 0;
	uint64_t log_id = is_logged ? ++fm_sig_exact->n_logged : 0, log_ns = is_logged ? log_time() : 0;
	uint32_t site = sum_up(key, p, at, size);
	unlock();
	if (!fm_sig_exact->is_told[site]) // before its first block
		tell(t, site, domain, has_native);
	fm_sig_alloc.log_id = log_id;
	if (at)
		*fm_sig_block_log_id(at) = log_id;
	if (lost_id)
		fm_sig_log_died(t, lost_id, lost_ns);
	if (log_id)
		fm_sig_log_born(t, log_id, log_ns, size, site);
	return site;
}

static FM_ALWAYS_INLINE uint64_t add(struct fm_sig_thread *t, uint64_t key, const void *p, uint64_t *at, uint64_t size,
				     unsigned domain, bool has_native)
{
	uint32_t site;
	if (FM_UNLIKELY(!lock()))
		return 0;
	if (FM_UNLIKELY(fm_sig_log_ids != NULL)) {
		site = sum_up_and_log(t, key, p, at, size, domain, has_native);
	} else {
		site = sum_up(key, p, at, size);
		unlock();
	}
	if (FM_UNLIKELY(!fm_sig_exact->is_told[site]))
		tell(t, site, domain, has_native);
	if (fm_sig_exact_is_time_to_look(&fm_wire_exact_sites(fm_sig_exact_sums)[site]))
		fm_sig_exact_look(t);
	return (uint64_t)site << FM_SIG_TOKEN_SIZE_BITS | size;
}

static FM_ALWAYS_INLINE uint64_t key_of(uint64_t stack, unsigned domain)
{
	return (stack + domain * 0x9fb21c651e98df25u) | 1;
}

// So that the next block from the same place is counted by exact_quick.h.
static FM_ALWAYS_INLINE void learn(struct fm_sig_thread *t, unsigned domain, uint64_t token)
{
	struct fm_sig_frame_cache *m = t->frame_cache;
	uint32_t site = (uint32_t)(token >> FM_SIG_TOKEN_SIZE_BITS);
	fm_sig_alloc.frame_cache = m;
	if (site && fm_sig_exact->is_told[site])
		fm_sig_mirror_learn(m, domain, &fm_wire_exact_sites(fm_sig_exact_sums)[site],
				    (uint64_t)site << FM_SIG_TOKEN_SIZE_BITS);
}

// Not for others to inline: the height of its frame is a part of sites.
FM_SIGSAFE __attribute__((noinline)) uint64_t fm_sig_exact_alloc(const void *p, uint64_t size, unsigned domain,
								 uintptr_t caller, bool is_kept)
{
	struct fm_sig_thread *t = fm_sig_exact_sums ? enter() : NULL;
	uint64_t token = 0, *at = NULL;
	if (FM_UNLIKELY(!t)) {
		if (fm_sig_exact_sums)
			count_lost();
		return 0;
	}
	uint32_t n_sites = fm_sig_exact->n_sites;
	enum fm_sig_hash_of of = what_to_hash(n_sites);
	uint64_t stack = fm_sig_python_hash(t, of);
	bool has_native = is_native(caller) && n_sites < FM_WIRE_TOO_MANY_SITES;
	if (has_native)
		stack = hash_native(stack, caller, (uintptr_t)__builtin_frame_address(0), of);
	if (FM_UNLIKELY(is_kept && !(at = fm_sig_block_get(p))))
		count_lost();
	else
		token = add(t, key_of(stack, domain), p, at, size, domain, has_native);
	if (!has_native && domain <= FM_ALLOC_MEM && stack != 1 && t->frame_cache->thread_state &&
	    atomic_load_explicit(&fm_sig_exact_is_quick, memory_order_relaxed))
		learn(t, domain, token);
	leave(t);
	return token;
}

FM_SIGSAFE void fm_sig_exact_python_alloc(const void *p, uint64_t size, unsigned domain, uintptr_t caller)
{
	if (p && !fm_sig_alloc.depth && is_on())
		fm_sig_exact_alloc(p, size, domain, caller, true);
}

// Counts the end of a block, and tells it.
static FM_ALWAYS_INLINE void freed(uint64_t token, uint64_t log_id)
{
	uint64_t log_ns = 0;
	if (FM_UNLIKELY(!fm_sig_exact_sums || !lock()))
		return;
	fm_sig_exact_remove(token);
	if (FM_UNLIKELY(log_id != 0) && fm_sig_log_is_on())
		log_ns = log_time();
	unlock();
	if (FM_UNLIKELY(log_ns != 0))
		log_death(log_id, log_ns);
}

FM_SIGSAFE uint64_t fm_sig_exact_take(const void *p)
{
	uint64_t *at = fm_sig_block_find(p), token = at ? *at : 0;
	if (!token)
		return 0;
	token = token_of_end(p, token);
	*at = 0;
	if (FM_UNLIKELY(fm_sig_log_ids != NULL))
		fm_sig_alloc.log_id = *fm_sig_block_log_id(at);
	return token;
}

FM_SIGSAFE void fm_sig_exact_give_back(const void *p, uint64_t token)
{
	uint64_t *at = fm_sig_block_find(p);
	if (!at)
		return;
	*at = token;
	if (FM_UNLIKELY(fm_sig_log_ids != NULL))
		*fm_sig_block_log_id(at) = fm_sig_alloc.log_id;
}

FM_SIGSAFE void fm_sig_exact_token_freed(uint64_t token)
{
	freed(token, fm_sig_alloc.log_id);
}

FM_SIGSAFE void fm_sig_exact_free(const void *p)
{
	if (FM_LIKELY(fm_sig_exact_free_quickly(p)))
		return;
	if (FM_UNLIKELY(!is_on()))
		return;
	uint64_t *at = fm_sig_block_find(p), token = at ? *at : 0;
	if (!token)
		return;
	*at = 0; // whatever comes: the block is about to be somebody else's
	token = token_of_end(p, token);
	if (token)
		freed(token, FM_UNLIKELY(fm_sig_log_ids != NULL) ? *fm_sig_block_log_id(at) : 0);
}
