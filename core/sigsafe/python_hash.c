#include "sigsafe/python_hash.h"

#include <pthread.h>

#include "sigsafe/raw.h"
#include "sigsafe/state.h"

#include "sigsafe/sigsafe.h"

// Offsets in registers: the compiler cannot know that nobody changes the row meanwhile.
struct layout {
	uint64_t frame_code, frame_lasti, frame_previous, line_table;
	uint64_t code_mask, lasti_mask;
};

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
static FM_SIGSAFE uint64_t current_frame(uint64_t ts)
{
	const struct fm_py_row *row = &fm_sig.python.row;
	if (row->frames == FM_PY_FRAMES_SHIM)
		return word_at(ts + row->ts_current_frame);
	if (row->frames >= FM_PY_FRAMES_ENTRY_FLAG)
		return word_at(word_at(ts + row->ts_cframe) + row->cframe_current_frame);
	return word_at(ts + row->ts_frame);
}

// The same of a thread that does not hold the GIL: at the interpreter's end its state may have been freed behind its back.
static FM_SIGSAFE __attribute__((noinline)) uint64_t detached_frame(struct fm_sig_thread *t)
{
	const struct fm_py_row *row = &fm_sig.python.row;
	uint64_t ts = (uintptr_t)fm_sig.python.gilstate_thread_state(), frame = 0, cframe;
	if (!ts)
		return 0;
	if (row->frames == FM_PY_FRAMES_SHIM) {
		fm_sig_read_u64(t, ts + row->ts_current_frame, &frame);
	} else if (row->frames >= FM_PY_FRAMES_ENTRY_FLAG) {
		if (fm_sig_read_u64(t, ts + row->ts_cframe, &cframe))
			fm_sig_read_u64(t, cframe + row->cframe_current_frame, &frame);
	} else {
		fm_sig_read_u64(t, ts + row->ts_frame, &frame);
	}
	return fm_sig_readable(t, frame, 8) ? frame : 0;
}

struct fm_sig_mirror *fm_sig_mirrors;

static FM_SIGSAFE struct fm_sig_mirror *mirror_of(const struct fm_sig_thread *t)
{
	return &fm_sig_mirrors[t->idx];
}

// The innermost frame of this thread; 0 = no Python here.
static FM_SIGSAFE uint64_t first_frame(struct fm_sig_thread *t)
{
	const struct fm_sig_python *py = &fm_sig.python;
	struct fm_sig_mirror *m = mirror_of(t);
	uint64_t owner;
	if (!atomic_load_explicit(&fm_sig.has_python, memory_order_acquire))
		return 0;
	uint64_t ts = (uintptr_t)py->current_thread_state(), us = (uint64_t)pthread_self();
	// One that was ours, and is somebody's now, can be read without asking.
	if (FM_LIKELY(ts && ts == m->thread_state))
		owner = word_at(ts + py->row.ts_thread_id);
	else if (!ts || !fm_sig_read_u64(t, ts + py->row.ts_thread_id, &owner))
		owner = ~us;
	if (FM_UNLIKELY(owner != us))
		return detached_frame(t);
	m->thread_state = ts;
	return current_frame(ts);
}

static FM_SIGSAFE uint16_t *place_of(struct fm_sig_mirror *m, uint64_t frame)
{
	return &m->place[frame * 0x9e3779b97f4a7c15u >> 32 & (FM_SIG_MIRROR_PLACES - 1)];
}

// Index of a frame, plus 1; 0 = it is not there.
static FM_SIGSAFE uint32_t find(struct fm_sig_mirror *m, uint64_t frame)
{
	uint32_t at = *place_of(m, frame);
	return at && m->frames[at - 1].frame == frame ? at : 0;
}

// A code object's address may be used again, so its line table's goes in, too.
static FM_SIGSAFE uint64_t hash_frame(const struct fm_sig_mirror_frame *f)
{
	return (f->code ^ f->line_table << 16 ^ f->lasti * 0x9e3779b97f4a7c15u) | 1ull << 63;
}

// Reads what a frame is about. False: that is nothing we can believe in.
static FM_SIGSAFE bool load(struct fm_sig_thread *t, const struct layout *l, struct fm_sig_mirror_frame *f)
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

// Compares frames [0, n) with what they are now, innermost first, and takes over what has changed. Returns how many of them are not
// the callers of frame n - 1 any more; 0 = all are.
static FM_SIGSAFE uint32_t compare(struct fm_sig_thread *t, const struct layout *l, uint32_t n)
{
	struct fm_sig_mirror *m = mirror_of(t);
	uint32_t changed = n;
	for (uint32_t i = n; i > 0; i--) {
		struct fm_sig_mirror_frame *f = &m->frames[i - 1];
		// The one before named this frame as its caller: it is there to be read, and so is its code when that is the same.
		uint64_t lasti = word_at(f->frame + l->frame_lasti) & l->lasti_mask;
		if (FM_UNLIKELY((word_at(f->frame + l->frame_code) & l->code_mask) != f->code ||
				word_at(f->code + l->line_table) != f->line_table)) {
			changed = i - 1;
			if (!load(t, l, f)) {
				f->frame = 0;
				m->n_hashed = FM_MIN(m->n_hashed, changed);
				return i;
			}
		} else if (lasti != f->lasti) { // the same function has gone on
			changed = i - 1;
			f->lasti = lasti;
			f->own = f->own ? hash_frame(f) : 0;
		}
		if (FM_UNLIKELY(word_at(f->frame + l->frame_previous) != (i > 1 ? f[-1].frame : 0))) {
			m->n_hashed = FM_MIN(m->n_hashed, changed);
			return i;
		}
	}
	m->n_hashed = FM_MIN(m->n_hashed, changed);
	return 0;
}

static FM_SIGSAFE uint64_t rehash(struct fm_sig_mirror *m, uint32_t n)
{
	uint32_t i = m->n_hashed;
	uint64_t h = i ? m->frames[i - 1].hash : 1;
	for (; i < n; i++)
		h = m->frames[i].hash = m->frames[i].own ? mix(h, m->frames[i].own) : h;
	m->n_hashed = FM_MAX(m->n_hashed, n);
	return n ? m->frames[n - 1].hash : 1;
}

// Puts the fresh frames inside of the first n. Returns how many there are then; what cannot be read ends the stack.
static FM_SIGSAFE __attribute__((noinline)) uint32_t append(struct fm_sig_thread *t, const struct layout *l, uint32_t n,
							    uint32_t n_fresh)
{
	struct fm_sig_mirror *m = mirror_of(t);
	m->n_hashed = FM_MIN(m->n_hashed, n);
	for (uint32_t i = n_fresh; i > 0 && n < FM_SIG_MIRROR_FRAMES; i--) {
		struct fm_sig_mirror_frame *f = &m->frames[n];
		f->frame = m->fresh[i - 1];
		if (!load(t, l, f)) {
			f->frame = 0;
			continue;
		}
		*place_of(m, f->frame) = (uint16_t)++n;
	}
	return n;
}

FM_SIGSAFE uint64_t fm_sig_python_hash(struct fm_sig_thread *t)
{
	struct fm_sig_mirror *m = mirror_of(t);
	const struct fm_py_row *row = &fm_sig.python.row;
	uint64_t frame = first_frame(t);
	if (!frame)
		return 1;
	const struct layout l = { .frame_code = row->frame_code,
				  .frame_lasti = row->frame_lasti,
				  .frame_previous = row->frame_previous,
				  .line_table = row->code_line_table,
				  .code_mask = ~(uint64_t)row->executable_tag_mask,
				  .lasti_mask = row->lasti == FM_PY_LASTI_POINTER ? ~0ull : UINT32_MAX };
	uint64_t frame_end = FM_MAX(FM_MAX(row->frame_code, row->frame_previous), row->frame_lasti) + 8u;
	uint32_t n = 0, n_fresh = 0, n_others;
	for (;;) {
		while (frame && !(n = find(m, frame)) && n_fresh < FM_SIG_MIRROR_FRAMES) {
			if (!fm_sig_readable(t, frame, frame_end)) {
				frame = 0;
				break;
			}
			m->fresh[n_fresh++] = frame;
			frame = word_at(frame + l.frame_previous);
		}
		if (!frame || n_fresh == FM_SIG_MIRROR_FRAMES) {
			n = 0;
			break;
		}
		n_others = compare(t, &l, n);
		if (FM_LIKELY(n_others == 0))
			break;
		// The frames up to there are on the stack, under other callers than before.
		uint64_t last = m->frames[n_others - 1].frame;
		for (uint32_t i = n; i >= n_others && m->frames[i - 1].frame && n_fresh < FM_SIG_MIRROR_FRAMES; i--)
			m->fresh[n_fresh++] = m->frames[i - 1].frame;
		frame = last ? word_at(last + l.frame_previous) : 0;
	}
	if (n_fresh)
		n = append(t, &l, n, n_fresh);
	return rehash(m, n);
}
