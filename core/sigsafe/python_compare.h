// What python_hash.h does for every block: the comparison with the last stack. Inline, for exact*.c, exact_quick.h and python_hash.c alone.
#pragma once

#include "base/compiler.h"
#include "sigsafe/python_hash.h"
#include "sigsafe/raw.h"
#include "sigsafe/state.h"

// Reads what a frame is about. False: that is nothing we can believe in.
bool fm_sig_mirror_load(struct fm_sig_thread *t, struct fm_sig_mirror_frame *f);

static FM_ALWAYS_INLINE uint64_t word_at(uint64_t addr)
{
	return *(const fm_sig_u64 *)addr;
}

static FM_ALWAYS_INLINE uint64_t mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * 0x9fb21c651e98df25u;
	return h ^ h >> 32;
}

// Where an attached thread state has the frame that runs: it is at rest, and what it points to is there.
static FM_ALWAYS_INLINE uint64_t current_frame(const struct fm_sig_mirror_layout *l, uint64_t ts)
{
	return word_at((l->has_cframe ? word_at(ts + l->ts_cframe) : ts) + l->current_frame);
}

static FM_ALWAYS_INLINE uint16_t *place_of(struct fm_sig_mirror *m, uint64_t frame)
{
	return &m->place[frame * 0x9e3779b97f4a7c15u >> 32 & (FM_SIG_MIRROR_PLACES - 1)];
}

// Index of a frame; 0 = it is not there.
static FM_ALWAYS_INLINE uint32_t find(struct fm_sig_mirror *m, uint64_t frame)
{
	uint32_t at = *place_of(m, frame);
	return m->frames[at].frame == frame ? at : 0;
}

static FM_ALWAYS_INLINE uint64_t lasti_of(const struct fm_sig_mirror_layout *l, uint64_t frame, bool is_lasti_pointer)
{
	uint64_t lasti = word_at(frame + l->frame_lasti);
	return is_lasti_pointer ? lasti : lasti & l->lasti_mask;
}

static FM_ALWAYS_INLINE uint64_t code_of(const struct fm_sig_mirror_layout *l, uint64_t frame)
{
	return word_at(frame + l->frame_code) & l->code_mask;
}

// The same function at the same instruction, by an instruction's address alone where that tells the code. (A code object that ends
// takes all that is known of it along: fm_sig_mirror_epoch.)
static FM_ALWAYS_INLINE bool is_where_it_was(const struct fm_sig_mirror_layout *l, const struct fm_sig_mirror_frame *f,
					     bool is_lasti_pointer)
{
	return lasti_of(l, f->frame, is_lasti_pointer) == f->lasti &&
	       (is_lasti_pointer || code_of(l, f->frame) == f->code);
}

static FM_ALWAYS_INLINE uint64_t hash_frame(const struct fm_sig_mirror_frame *f)
{
	return f->print ? (f->print ^ f->lasti * 0x9e3779b97f4a7c15u) | 1ull << 63 : 0;
}

// Compares frames [1, n] with what they are now, innermost first, and takes over what has changed. Each frame was named as its
// caller by the one before: it is there to be read. Returns the innermost frame whose caller is another one than before, or that
// cannot be read (it is no frame then); 0 = there is none.
static FM_ALWAYS_INLINE uint32_t compare(struct fm_sig_thread *t, struct fm_sig_mirror *m, uint32_t n,
					 bool is_lasti_pointer)
{
	const struct fm_sig_mirror_layout layout = m->layout,
					  *l = &layout; // a copy: frames could lie anywhere, for a compiler
	uint32_t n_same = m->n_hashed, i = n;
	for (struct fm_sig_mirror_frame *f = &m->frames[n]; i > 0; i--, f--) {
		if (!is_where_it_was(l, f, is_lasti_pointer)) {
			n_same = FM_MIN(n_same, i - 1);
			if (code_of(l, f->frame) == f->code) { // the same one has gone on
				f->lasti = lasti_of(l, f->frame, is_lasti_pointer);
				f->own = hash_frame(f);
			} else if (!fm_sig_mirror_load(t, f)) {
				f->frame = 0;
				break;
			}
		}
		if (FM_UNLIKELY(word_at(f->frame + l->frame_previous) != f[-1].frame))
			break;
	}
	m->n_hashed = n_same;
	return i;
}

void fm_sig_mirror_hash_less(const struct fm_sig_mirror *m, struct fm_sig_mirror_frame *f);

static FM_ALWAYS_INLINE void rehash_frame(const struct fm_sig_mirror *m, struct fm_sig_mirror_frame *f)
{
	if (FM_UNLIKELY(m->of != FM_SIG_HASH_WHOLE))
		fm_sig_mirror_hash_less(m, f);
	else
		f->hash = f->own ? mix(f[-1].hash, f->own) : f[-1].hash;
}

static FM_ALWAYS_INLINE uint64_t rehash(struct fm_sig_mirror *m, uint32_t n)
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

// Whether all callers of a frame are where they were.
static FM_ALWAYS_INLINE bool are_callers_same(const struct fm_sig_mirror *m, const struct fm_sig_mirror_frame *f,
					      bool is_lasti_pointer)
{
	const struct fm_sig_mirror_layout l =
		m->layout; // a copy: what is read of frames could be anything for a compiler
	uint64_t frame = f->frame;
	for (;;) {
		f--;
		if (FM_UNLIKELY(word_at(frame + l.frame_previous) != f->frame))
			return false;
		frame = f->frame;
		if (!frame)
			return f == m->frames; // nobody's, whose address is 0
		if (FM_UNLIKELY(!is_where_it_was(&l, f, is_lasti_pointer)))
			return false;
	}
}

// What the innermost frame's instruction and code are kept under.
static FM_ALWAYS_INLINE uint64_t place_key(const struct fm_sig_mirror_layout *l, uint64_t frame, bool is_lasti_pointer)
{
	return is_lasti_pointer ? lasti_of(l, frame, true)
				: code_of(l, frame) ^ lasti_of(l, frame, false) * 0x9e3779b97f4a7c15u;
}

static FM_ALWAYS_INLINE struct fm_sig_memo *memo_at(struct fm_sig_mirror *m, uint64_t place, uint64_t callers,
						    unsigned domain)
{
	return &m->memos[domain][((place >> 1) + callers) & (FM_SIG_MIRROR_MEMOS - 1)];
}

// NULL = there is none.
static FM_ALWAYS_INLINE const struct fm_sig_memo *memo_of(struct fm_sig_mirror *m, uint64_t place, uint64_t callers,
							  unsigned domain)
{
	const struct fm_sig_memo *memo = memo_at(m, place, callers, domain);
	return FM_LIKELY(memo->place == place && memo->callers == callers) ? memo : NULL;
}

// What was last learnt of this stack, for a thread that has ts as its own; NULL = it has to be looked at properly.
static FM_ALWAYS_INLINE const struct fm_sig_memo *fm_sig_mirror_recall(struct fm_sig_mirror *m, uint64_t ts,
								       unsigned domain, bool is_lasti_pointer)
{
	const struct fm_sig_mirror_layout *l = &m->layout;
	// One that was ours, and is somebody's now, can be read without asking.
	if (FM_UNLIKELY(ts != m->thread_state))
		return NULL;
	if (FM_UNLIKELY(m->epoch != atomic_load_explicit(&fm_sig_mirror_epoch, memory_order_relaxed)))
		return NULL;
	struct fm_sig_mirror_frame *f = m->last;
	uint64_t frame = current_frame(l, ts);
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
