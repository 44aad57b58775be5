// What python_hash.h does for every block: the comparison with the last stack. Inline, for exact.c and python_hash.c alone.
#pragma once

#include "base/compiler.h"
#include "sigsafe/python_hash.h"
#include "sigsafe/raw.h"
#include "sigsafe/state.h"

#define FM_SIG_INLINE static inline __attribute__((always_inline))

// Reads what a frame is about. False: that is nothing we can believe in.
bool fm_sig_mirror_load(struct fm_sig_thread *t, struct fm_sig_mirror_frame *f);
// Whatever has happened since: other frames, another thread state, none at all.
uint64_t fm_sig_python_hash_anew(struct fm_sig_thread *t);

FM_SIG_INLINE uint64_t word_at(uint64_t addr)
{
	return *(const fm_sig_u64 *)addr;
}

FM_SIG_INLINE uint64_t mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * 0x9fb21c651e98df25u;
	return h ^ h >> 32;
}

// Where an attached thread state has the frame that runs: it is at rest, and what it points to is there.
FM_SIG_INLINE uint64_t current_frame(const struct fm_sig_mirror_layout *l, uint64_t ts)
{
	return word_at((l->has_cframe ? word_at(ts + l->ts_cframe) : ts) + l->current_frame);
}

FM_SIG_INLINE uint16_t *place_of(struct fm_sig_mirror *m, uint64_t frame)
{
	return &m->place[frame * 0x9e3779b97f4a7c15u >> 32 & (FM_SIG_MIRROR_PLACES - 1)];
}

// Index of a frame; 0 = it is not there.
FM_SIG_INLINE uint32_t find(struct fm_sig_mirror *m, uint64_t frame)
{
	uint32_t at = *place_of(m, frame);
	return m->frames[at].frame == frame ? at : 0;
}

// A code object's address may be used again, so its line table's goes in, too.
FM_SIG_INLINE uint64_t hash_frame(const struct fm_sig_mirror_frame *f)
{
	return (f->code ^ f->line_table << 16 ^ f->lasti * 0x9e3779b97f4a7c15u) | 1ull << 63;
}

// Compares frames [1, n] with what they are now, innermost first, and takes over what has changed. Each frame was named as its
// caller by the one before: it is there to be read, and so is its code when that is the same. Returns the innermost frame whose
// caller is another one than before, or that cannot be read (it is no frame then); 0 = there is none.
FM_SIG_INLINE uint32_t compare(struct fm_sig_thread *t, struct fm_sig_mirror *m, uint32_t n, bool is_lasti_pointer)
{
	const struct fm_sig_mirror_layout *l = &m->layout;
	uint32_t n_same = m->n_hashed, i = n;
	for (struct fm_sig_mirror_frame *f = &m->frames[n]; i > 0; i--, f--) {
		uint64_t lasti = word_at(f->frame + l->frame_lasti);
		if (!is_lasti_pointer)
			lasti &= l->lasti_mask;
		// An instruction that is the same says that the code around it is.
		bool is_code_same = (is_lasti_pointer && lasti == f->lasti) ||
				    (word_at(f->frame + l->frame_code) & l->code_mask) == f->code;
		if (FM_UNLIKELY(!is_code_same || word_at(f->code + l->line_table) != f->line_table)) {
			n_same = FM_MIN(n_same, i - 1); // another function was called here
			if (!fm_sig_mirror_load(t, f)) {
				f->frame = 0;
				break;
			}
		} else if (lasti != f->lasti) { // the same one has gone on
			n_same = FM_MIN(n_same, i - 1);
			f->lasti = lasti;
			f->own = f->own ? hash_frame(f) : 0;
		}
		if (FM_UNLIKELY(word_at(f->frame + l->frame_previous) != f[-1].frame))
			break;
	}
	m->n_hashed = n_same;
	return i;
}

void fm_sig_mirror_hash_less(const struct fm_sig_mirror *m, struct fm_sig_mirror_frame *f);

FM_SIG_INLINE void rehash_frame(const struct fm_sig_mirror *m, struct fm_sig_mirror_frame *f)
{
	if (FM_UNLIKELY(m->of != FM_SIG_HASH_WHOLE))
		fm_sig_mirror_hash_less(m, f);
	else
		f->hash = f->own ? mix(f[-1].hash, f->own) : f[-1].hash;
}

FM_SIG_INLINE uint64_t rehash(struct fm_sig_mirror *m, uint32_t n)
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

FM_SIG_INLINE uint64_t fm_sig_python_hash_quickly(struct fm_sig_thread *t)
{
	struct fm_sig_mirror *m = t->mirror;
	if (FM_UNLIKELY(!m || !m->thread_state))
		return fm_sig_python_hash_anew(t);
	// One that was ours, and is somebody's now, can be read without asking.
	const struct fm_sig_mirror_layout *l = &m->layout;
	uint64_t ts = (uintptr_t)fm_sig.python.current_thread_state();
	if (FM_UNLIKELY(ts != m->thread_state || word_at(ts + l->ts_thread_id) != m->thread))
		return fm_sig_python_hash_anew(t);
	uint64_t frame = current_frame(l, ts);
	if (FM_UNLIKELY(!frame))
		return 1;
	uint32_t n = m->n_last;
	if (m->frames[n].frame != frame)
		n = find(m, frame);
	if (FM_UNLIKELY(!n || (l->is_lasti_pointer ? compare(t, m, n, true) : compare(t, m, n, false))))
		return fm_sig_python_hash_anew(t);
	m->n_last = n;
	return rehash(m, n);
}
