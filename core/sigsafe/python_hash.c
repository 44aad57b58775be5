#include "sigsafe/python_hash.h"

#include <pthread.h>

#include "sigsafe/raw.h"
#include "sigsafe/state.h"

#include "sigsafe/sigsafe.h"

static FM_SIGSAFE uint64_t word_at(uint64_t addr)
{
	return *(const fm_sig_u64 *)addr;
}

static FM_SIGSAFE uint64_t mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * 0x9fb21c651e98df25u;
	return h ^ h >> 32;
}

// Where an attached thread state has the frame that runs: it is at rest, and what it points to is there.
static FM_SIGSAFE uint64_t current_frame(const struct fm_sig_mirror_layout *l, uint64_t ts)
{
	return word_at((l->has_cframe ? word_at(ts + l->ts_cframe) : ts) + l->current_frame);
}

// The same of a thread that does not hold the GIL: at the interpreter's end its state may have been freed behind its back.
static FM_SIGSAFE __attribute__((noinline)) uint64_t detached_frame(struct fm_sig_thread *t,
								    const struct fm_sig_mirror_layout *l)
{
	uint64_t ts = (uintptr_t)fm_sig.python.gilstate_thread_state(), frame = 0;
	if (!ts || (l->has_cframe && !fm_sig_read_u64(t, ts + l->ts_cframe, &ts)) ||
	    !fm_sig_read_u64(t, ts + l->current_frame, &frame))
		return 0;
	return fm_sig_readable(t, frame, 8) ? frame : 0;
}

struct fm_sig_mirror *fm_sig_mirrors;

static FM_SIGSAFE void read_layout(struct fm_sig_mirror_layout *l)
{
	const struct fm_py_row *row = &fm_sig.python.row;
	l->has_cframe = row->frames >= FM_PY_FRAMES_ENTRY_FLAG && row->frames != FM_PY_FRAMES_SHIM;
	l->ts_thread_id = row->ts_thread_id;
	l->ts_cframe = row->ts_cframe;
	l->current_frame = l->has_cframe                      ? row->cframe_current_frame
			   : row->frames == FM_PY_FRAMES_SHIM ? row->ts_current_frame
							      : row->ts_frame;
	l->frame_code = row->frame_code;
	l->frame_lasti = row->frame_lasti;
	l->frame_previous = row->frame_previous;
	l->line_table = row->code_line_table;
	l->code_mask = ~(uint64_t)row->executable_tag_mask;
	l->is_lasti_pointer = row->lasti == FM_PY_LASTI_POINTER;
	l->lasti_mask = l->is_lasti_pointer ? ~0ull : UINT32_MAX;
}

// The innermost frame of this thread; 0 = no Python here.
static FM_SIGSAFE uint64_t first_frame(struct fm_sig_thread *t, struct fm_sig_mirror *m)
{
	uint64_t ts = (uintptr_t)fm_sig.python.current_thread_state(), us = (uint64_t)pthread_self(), owner;
	if (!ts || !fm_sig_read_u64(t, ts + m->layout.ts_thread_id, &owner) || owner != us)
		return detached_frame(t, &m->layout);
	m->thread_state = ts;
	m->thread = us;
	return current_frame(&m->layout, ts);
}

static FM_SIGSAFE uint16_t *place_of(struct fm_sig_mirror *m, uint64_t frame)
{
	return &m->place[frame * 0x9e3779b97f4a7c15u >> 32 & (FM_SIG_MIRROR_PLACES - 1)];
}

// Index of a frame; 0 = it is not there.
static FM_SIGSAFE uint32_t find(struct fm_sig_mirror *m, uint64_t frame)
{
	uint32_t at = *place_of(m, frame);
	return m->frames[at].frame == frame ? at : 0;
}

// A code object's address may be used again, so its line table's goes in, too.
static FM_SIGSAFE uint64_t hash_frame(const struct fm_sig_mirror_frame *f)
{
	return (f->code ^ f->line_table << 16 ^ f->lasti * 0x9e3779b97f4a7c15u) | 1ull << 63;
}

// Reads what a frame is about. False: that is nothing we can believe in.
static FM_SIGSAFE __attribute__((noinline)) bool load(struct fm_sig_thread *t, const struct fm_sig_mirror_layout *l,
						      struct fm_sig_mirror_frame *f)
{
	f->code = word_at(f->frame + l->frame_code) & l->code_mask;
	f->lasti = word_at(f->frame + l->frame_lasti) & l->lasti_mask;
	// One question for all that is read of it.
	const struct fm_py_row *row = &fm_sig.python.row;
	if (!fm_sig_readable(t, f->code, FM_MAX(row->object_type, row->code_line_table) + 8u))
		return false;
	f->line_table = word_at(f->code + l->line_table);
	f->own = word_at(f->code + row->object_type) == fm_sig.python.code_type ? hash_frame(f) : 0;
	return true;
}

// Compares frames [1, n] with what they are now, innermost first, and takes over what has changed. Each frame was named as its
// caller by the one before: it is there to be read, and so is its code when that is the same. Returns the innermost frame whose
// caller is another one than before, or that cannot be read (it is no frame then); 0 = there is none.
static inline __attribute__((always_inline)) uint32_t compare(struct fm_sig_thread *t, struct fm_sig_mirror *m,
							      uint32_t n, bool is_lasti_pointer)
{
	const struct fm_sig_mirror_layout *l = &m->layout;
	uint32_t n_same = m->n_hashed, i = n;
	for (struct fm_sig_mirror_frame *f = &m->frames[n]; i > 0; i--, f--) {
		uint64_t lasti = word_at(f->frame + l->frame_lasti) & l->lasti_mask;
		// An instruction that is the same says that the code around it is.
		bool is_code_same = (is_lasti_pointer && lasti == f->lasti) ||
				    (word_at(f->frame + l->frame_code) & l->code_mask) == f->code;
		if (FM_UNLIKELY(!is_code_same || word_at(f->code + l->line_table) != f->line_table)) {
			n_same = FM_MIN(n_same, i - 1); // another function was called here
			if (!load(t, l, f)) {
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

static inline __attribute__((always_inline)) uint64_t rehash(struct fm_sig_mirror *m, uint32_t n)
{
	uint32_t i = m->n_hashed;
	if (i >= n)
		return m->frames[n].hash;
	struct fm_sig_mirror_frame *f = &m->frames[i];
	uint64_t h = f->hash;
	for (; i < n; i++) {
		f++;
		h = f->hash = f->own ? mix(h, f->own) : h;
	}
	m->n_hashed = n;
	return h;
}

// Puts the fresh frames inside of the first n. Returns how many there are then; what cannot be read ends the stack.
static FM_SIGSAFE uint32_t append(struct fm_sig_thread *t, struct fm_sig_mirror *m, uint32_t n, uint32_t n_fresh)
{
	m->n_hashed = FM_MIN(m->n_hashed, n);
	for (uint32_t i = n_fresh; i > 0 && n < FM_SIG_MIRROR_FRAMES; i--) {
		struct fm_sig_mirror_frame *f = &m->frames[n + 1];
		f->frame = m->fresh[i - 1];
		if (!load(t, &m->layout, f)) {
			f->frame = 0;
			continue;
		}
		*place_of(m, f->frame) = (uint16_t)++n;
	}
	return n;
}

// Frames [i, n] are on the stack, under another caller than before: they are fresh. Returns that caller; 0 = it is not known.
static FM_SIGSAFE uint64_t uproot(struct fm_sig_mirror *m, uint32_t n, uint32_t i, uint32_t *n_fresh)
{
	uint64_t last = m->frames[i].frame;
	for (uint32_t k = n; k >= i && m->frames[k].frame && *n_fresh < FM_SIG_MIRROR_FRAMES; k--)
		m->fresh[(*n_fresh)++] = m->frames[k].frame;
	return last ? word_at(last + m->layout.frame_previous) : 0;
}

// Whatever has happened since: other frames, another thread state, none at all.
static FM_SIGSAFE __attribute__((noinline)) uint64_t hash_anew(struct fm_sig_thread *t)
{
	struct fm_sig_mirror *m = t->mirror = &fm_sig_mirrors[t - fm_sig.threads];
	m->thread_state = 0;
	if (!atomic_load_explicit(&fm_sig.has_python, memory_order_acquire))
		return 1;
	read_layout(&m->layout);
	m->frames[0].hash = 1;
	const struct fm_sig_mirror_layout *l = &m->layout;
	uint64_t frame = first_frame(t, m);
	if (!frame)
		return 1;
	uint64_t frame_end = FM_MAX(FM_MAX(l->frame_code, l->frame_previous), l->frame_lasti) + 8u;
	uint32_t n = 0, n_fresh = 0;
	while (frame && n_fresh < FM_SIG_MIRROR_FRAMES) {
		uint32_t other = 0;
		n = find(m, frame);
		if (n && !(other = compare(t, m, n, false)))
			break;
		if (n) {
			frame = uproot(m, n, other, &n_fresh);
			continue;
		}
		if (!fm_sig_readable(t, frame, frame_end))
			break;
		m->fresh[n_fresh++] = frame;
		frame = word_at(frame + l->frame_previous);
	}
	if (!frame || n_fresh == FM_SIG_MIRROR_FRAMES)
		n = 0;
	if (n_fresh)
		n = append(t, m, n, n_fresh);
	m->n_last = n;
	return rehash(m, n);
}

FM_SIGSAFE uint64_t fm_sig_python_hash(struct fm_sig_thread *t)
{
	struct fm_sig_mirror *m = t->mirror;
	if (FM_UNLIKELY(!m || !m->thread_state))
		return hash_anew(t);
	// One that was ours, and is somebody's now, can be read without asking.
	const struct fm_sig_mirror_layout *l = &m->layout;
	uint64_t ts = (uintptr_t)fm_sig.python.current_thread_state();
	if (FM_UNLIKELY(ts != m->thread_state || word_at(ts + l->ts_thread_id) != m->thread))
		return hash_anew(t);
	uint64_t frame = current_frame(l, ts);
	if (FM_UNLIKELY(!frame))
		return 1;
	uint32_t n = m->n_last;
	if (m->frames[n].frame != frame)
		n = find(m, frame);
	if (FM_UNLIKELY(!n || (l->is_lasti_pointer ? compare(t, m, n, true) : compare(t, m, n, false))))
		return hash_anew(t);
	m->n_last = n;
	return rehash(m, n);
}
