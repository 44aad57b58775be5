#include "sigsafe/python_compare.h"

#include <pthread.h>

#include "sigsafe/raw.h"
#include "sigsafe/state.h"

#include "sigsafe/sigsafe.h"

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

// Reads what a frame is about. False: that is nothing we can believe in.
FM_SIGSAFE __attribute__((noinline)) bool fm_sig_mirror_load(struct fm_sig_thread *t, struct fm_sig_mirror_frame *f)
{
	const struct fm_sig_mirror_layout *l = &t->mirror->layout;
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

// Puts the fresh frames inside of the first n. Returns how many there are then; what cannot be read ends the stack.
static FM_SIGSAFE uint32_t append(struct fm_sig_thread *t, struct fm_sig_mirror *m, uint32_t n, uint32_t n_fresh)
{
	m->n_hashed = FM_MIN(m->n_hashed, n);
	for (uint32_t i = n_fresh; i > 0 && n < FM_SIG_MIRROR_FRAMES; i--) {
		struct fm_sig_mirror_frame *f = &m->frames[n + 1];
		f->frame = m->fresh[i - 1];
		if (!fm_sig_mirror_load(t, f)) {
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
FM_SIGSAFE __attribute__((noinline)) uint64_t fm_sig_python_hash_anew(struct fm_sig_thread *t)
{
	struct fm_sig_mirror *m = t->mirror = &fm_sig_mirrors[t->idx];
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

// The same with less than the whole stack.
FM_SIGSAFE __attribute__((noinline)) void fm_sig_mirror_hash_less(const struct fm_sig_mirror *m,
								  struct fm_sig_mirror_frame *f)
{
	bool is_seen_outside = false;
	for (const struct fm_sig_mirror_frame *outer = f - 1; outer > m->frames && !is_seen_outside; outer--)
		is_seen_outside = outer->own == f->own;
	if (!f->own || (m->of == FM_SIG_HASH_FOLDED && is_seen_outside))
		f->hash = f[-1].hash;
	else
		f->hash = mix(m->of == FM_SIG_HASH_INNERMOST ? m->frames[0].hash : f[-1].hash, f->own);
}

FM_SIGSAFE uint64_t fm_sig_python_hash(struct fm_sig_thread *t, enum fm_sig_hash_of of)
{
	struct fm_sig_mirror *m = &fm_sig_mirrors[t->idx];
	if (FM_UNLIKELY(m->of != of)) {
		m->of = of;
		m->n_hashed = 0;
	}
	return fm_sig_python_hash_quickly(t);
}
