// SPDX-License-Identifier: Apache-2.0
// What sigsafe/memory/stack_hash.h does for every block: the comparison with the last stack.
// Inline, for exact*.c, exact_quick.h and sigsafe/memory/stack_hash.c alone.
#pragma once

#include "base/compiler.h"
#include "sigsafe/memory/stack_hash.h"
#include "sigsafe/base/raw.h"
#include "sigsafe/base/state.h"

// Reads what a frame is about. False: that is nothing we can believe in.
bool fm_sig_mirror_load(struct fm_sig_thread *t, struct fm_sig_mirror_frame *f);

static FM_ALWAYS_INLINE uint64_t mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * 0x9fb21c651e98df25u;
	return h ^ h >> 32;
}

// The frame that runs, by its thread's state; 0 = none.
static FM_ALWAYS_INLINE uint64_t current_frame(const struct fm_sig_mirror_layout *l, uint64_t ts)
{
	uint64_t frame;
	if (l->has_cframe && !fm_sig_read_u64(ts + l->ts_cframe, &ts))
		return 0;
	return fm_sig_read_u64(ts + l->current_frame, &frame) ? frame : 0;
}

static FM_ALWAYS_INLINE uint16_t *place_of(struct fm_sig_frame_cache *m, uint64_t frame)
{
	return &m->place[frame * 0x9e3779b97f4a7c15u >> 32 & (FM_SIG_MIRROR_PLACES - 1)];
}

// Index of a frame; 0 = it is not there.
static FM_ALWAYS_INLINE uint32_t find(struct fm_sig_frame_cache *m, uint64_t frame)
{
	uint32_t at = *place_of(m, frame);
	return m->frames[at].frame == frame ? at : 0;
}

// What a frame says of itself; false: it is gone.
static FM_ALWAYS_INLINE bool read_lasti(const struct fm_sig_mirror_layout *l, uint64_t frame, uint64_t *ret)
{
	if (!fm_sig_read_u64(frame + l->frame_lasti, ret))
		return false;
	*ret &= l->lasti_mask;
	return true;
}

static FM_ALWAYS_INLINE bool read_code(const struct fm_sig_mirror_layout *l, uint64_t frame, uint64_t *ret)
{
	if (!fm_sig_read_u64(frame + l->frame_code, ret))
		return false;
	*ret &= l->code_mask;
	return true;
}

static FM_ALWAYS_INLINE uint64_t hash_frame(const struct fm_sig_mirror_frame *f)
{
	return f->print ? (f->print ^ f->lasti * 0x9e3779b97f4a7c15u) | 1ull << 63 : 0;
}

// Compares frames (end, n] with what they are now, innermost first, and takes over what has
// changed. Returns the innermost frame whose caller is another one than before, or that cannot be
// read (it is no frame then); 0 = there is none. A frame is the same one at the same place by its
// instruction's address alone where that tells the code. (A code object that ends takes all that is
// known of it along:
// fm_sig_mirror_epoch.)
static FM_ALWAYS_INLINE uint32_t compare_part(struct fm_sig_thread *t, struct fm_sig_frame_cache *m, uint32_t n,
					      uint32_t end, bool is_lasti_pointer)
{
	const struct fm_sig_mirror_layout layout = m->layout,
					  *l = &layout; // a copy: frames could lie anywhere, for a compiler
	uint32_t n_same = m->n_hashed, i = n;
	for (struct fm_sig_mirror_frame *f = &m->frames[n]; i > end; i--, f--) {
		uint64_t lasti, code = f->code, previous;
		if (FM_UNLIKELY(!read_lasti(l, f->frame, &lasti) ||
				((lasti != f->lasti || !is_lasti_pointer) && !read_code(l, f->frame, &code)) ||
				!fm_sig_read_u64(f->frame + l->frame_previous, &previous))) {
			f->frame = 0;
			n_same = FM_MIN(n_same, i - 1);
			break;
		}
		if (lasti != f->lasti || code != f->code) {
			n_same = FM_MIN(n_same, i - 1);
			if (code == f->code) { // the same one has gone on
				f->lasti = lasti;
				f->own = hash_frame(f);
			} else if (!fm_sig_mirror_load(t, f)) {
				f->frame = 0;
				break;
			}
		}
		if (FM_UNLIKELY(previous != f[-1].frame))
			break;
	}
	m->n_hashed = n_same;
	return i > end ? i : 0;
}

uint32_t fm_sig_mirror_take_turn(struct fm_sig_thread *t, struct fm_sig_frame_cache *m, uint32_t n);

// The same for all of the first n frames; of deep stacks for the innermost, and some of the others.
static FM_ALWAYS_INLINE uint32_t compare(struct fm_sig_thread *t, struct fm_sig_frame_cache *m, uint32_t n,
					 bool is_lasti_pointer)
{
	if (FM_LIKELY(n <= FM_SIG_MIRROR_DEEP))
		return compare_part(t, m, n, 0, is_lasti_pointer);
	uint32_t other = compare_part(t, m, n, n - FM_SIG_MIRROR_DEEP, is_lasti_pointer);
	if (other || m->n_since_turn++ < FM_SIG_MIRROR_BLOCKS_PER_TURN)
		return other;
	return fm_sig_mirror_take_turn(t, m, n - FM_SIG_MIRROR_DEEP);
}

void fm_sig_mirror_hash_less(const struct fm_sig_frame_cache *m, struct fm_sig_mirror_frame *f);

static FM_ALWAYS_INLINE void rehash_frame(const struct fm_sig_frame_cache *m, struct fm_sig_mirror_frame *f)
{
	if (FM_UNLIKELY(m->of != FM_SIG_HASH_WHOLE || f - m->frames > FM_SIG_MIRROR_DEEP))
		fm_sig_mirror_hash_less(m, f);
	else
		f->hash = f->own ? mix(f[-1].hash, f->own) : f[-1].hash;
}

static FM_ALWAYS_INLINE uint64_t rehash(struct fm_sig_frame_cache *m, uint32_t n)
{
	struct fm_sig_mirror_frame *f = &m->frames[n];
	if (m->n_hashed >= n)
		return f->hash;
	if (FM_UNLIKELY(m->n_hashed + 1 < n)) // mostly it is the innermost alone
		for (struct fm_sig_mirror_frame *outer = &m->frames[m->n_hashed + 1]; outer < f; outer++)
			rehash_frame(m, outer);
	m->n_hashed = n;
	rehash_frame(m, f);
	return f->hash;
}

// ---- the last stack once more, but for the innermost instruction ----

// Whether all callers of a frame are where they were; of deep stacks the innermost of them, now and
// then "no" for the sake of the others. Only where reads are recoverable.
static FM_ALWAYS_INLINE bool are_callers_same(struct fm_sig_frame_cache *m, const struct fm_sig_mirror_frame *f,
					      bool is_lasti_pointer)
{
	const struct fm_sig_mirror_layout l =
		m->layout; // a copy: what is read of frames could be anything for a compiler
	uint64_t frame = f->frame, previous, lasti, code;
	const struct fm_sig_mirror_frame *end = m->frames;
	if (FM_UNLIKELY(f - end > FM_SIG_MIRROR_DEEP)) {
		if (m->n_since_turn++ >= FM_SIG_MIRROR_BLOCKS_PER_TURN)
			return false;
		end = f - FM_SIG_MIRROR_DEEP;
	}
	for (;;) {
		f--;
		if (FM_UNLIKELY(!fm_sig_load_u64(frame + l.frame_previous, &previous) || previous != f->frame))
			return false;
		frame = f->frame;
		if (FM_UNLIKELY(f == end))
			return true; // nobody's, whose address is 0; or what is looked at by turns
		if (FM_UNLIKELY(!fm_sig_load_u64(frame + l.frame_lasti, &lasti)))
			return false;
		if (FM_UNLIKELY((is_lasti_pointer ? lasti : lasti & l.lasti_mask) != f->lasti))
			return false;
		if (!is_lasti_pointer &&
		    (!fm_sig_load_u64(frame + l.frame_code, &code) || (code & l.code_mask) != f->code))
			return false;
	}
}

// What the innermost frame's instruction and code are kept under; 0 = it is gone.
static FM_ALWAYS_INLINE uint64_t place_key(const struct fm_sig_mirror_layout *l, uint64_t frame, bool is_lasti_pointer)
{
	uint64_t lasti, code;
	if (!read_lasti(l, frame, &lasti))
		return 0;
	if (is_lasti_pointer)
		return lasti;
	return read_code(l, frame, &code) ? code ^ lasti * 0x9e3779b97f4a7c15u : 0;
}

static FM_ALWAYS_INLINE struct fm_sig_memo *memo_at(struct fm_sig_frame_cache *m, uint64_t place, uint64_t callers,
						    unsigned domain)
{
	return &m->memos[domain][((place >> 1) + callers) & (FM_SIG_MIRROR_MEMOS - 1)];
}

// NULL = there is none.
static FM_ALWAYS_INLINE const struct fm_sig_memo *memo_of(struct fm_sig_frame_cache *m, uint64_t place,
							  uint64_t callers, unsigned domain)
{
	const struct fm_sig_memo *memo = memo_at(m, place, callers, domain);
	return FM_LIKELY(place && memo->place == place && memo->callers == callers) ? memo : NULL;
}

// What was last learnt of this stack, for a thread that has ts as its own; NULL = it has to be
// looked at properly.
static FM_ALWAYS_INLINE const struct fm_sig_memo *fm_sig_mirror_recall(struct fm_sig_frame_cache *m, uint64_t ts,
								       unsigned domain, bool is_lasti_pointer)
{
	const struct fm_sig_mirror_layout *l = &m->layout;
	if (FM_UNLIKELY(ts != m->thread_state || !fm_sig_is_recoverable))
		return NULL;
	if (FM_UNLIKELY(m->epoch != atomic_load_explicit(&fm_sig_mirror_epoch, memory_order_relaxed)))
		return NULL;
	struct fm_sig_mirror_frame *f = m->last;
	uint64_t frame = current_frame(l, ts);
	if (FM_UNLIKELY(!frame))
		return NULL;
	if (f->frame != frame) {
		uint32_t n = find(m, frame);
		if (FM_UNLIKELY(!n || n - 1 > m->n_hashed))
			return NULL;
		f = m->last = &m->frames[n];
	}
	if (FM_UNLIKELY(!are_callers_same(m, f, is_lasti_pointer)))
		return NULL;
	f = m->last; // once more: that is cheaper than to keep it
	return memo_of(m, place_key(l, f->frame, is_lasti_pointer), f[-1].hash, domain);
}
