// SPDX-License-Identifier: Apache-2.0
#include "sigsafe/memory/stack_compare.h"

#include <pthread.h>

#include "sigsafe/memory/blocks.h"
#include "sigsafe/base/fault.h"
#include "sigsafe/python/thread_state.h"
#include "sigsafe/base/raw.h"
#include "sigsafe/base/state.h"

#include "sigsafe/base/sigsafe.h"

#define STACKS_PER_CHECK 256u

struct fm_sig_frame_cache *fm_sig_mirrors;
_Atomic uint64_t fm_sig_mirror_epoch;

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
	l->code_mask = ~(uint64_t)row->executable_tag_mask;
	l->lasti_mask = row->lasti == FM_PY_LASTI_POINTER ? ~0ull : UINT32_MAX;
	// Free-threaded: into a thread's own copy of the instructions, which may end before its
	// code does.
	l->is_lasti_pointer = row->lasti == FM_PY_LASTI_POINTER && !row->is_free_threaded;
	l->image_start = fm_sig.python.image_start;
	l->image_bytes = fm_sig.python.image_end - fm_sig.python.image_start;
}

// The innermost frame of this thread; 0 = no Python here. The state of a thread that does not hold
// the GIL is not kept: at the interpreter's end it may be freed behind its back.
static FM_SIGSAFE uint64_t first_frame(struct fm_sig_thread *t, struct fm_sig_frame_cache *m)
{
	bool is_attached;
	uint64_t ts = fm_sig_thread_state(t, &is_attached);
	if (is_attached) {
		m->thread_state = ts;
		m->thread = (uint64_t)pthread_self();
	}
	return ts ? current_frame(&m->layout, ts) : 0;
}

static FM_SIGSAFE void forget_memos(struct fm_sig_frame_cache *m)
{
	for (uint32_t i = 0; i < FM_SIG_MIRROR_MEMOS; i++)
		m->memos[0][i].place = m->memos[1][i].place = 0;
}

// Codes are known by their address. One that has ended may have left it to another.
static FM_SIGSAFE void forget(struct fm_sig_frame_cache *m)
{
	m->epoch = atomic_load_explicit(&fm_sig_mirror_epoch, memory_order_relaxed);
	m->n_hashed = 0;
	for (uint32_t i = 1; i <= m->n_used; i++)
		*place_of(m, m->frames[i].frame) = 0;
	m->n_used = 0;
	for (uint32_t i = 0; i < FM_SIG_MIRROR_CODES; i++)
		m->codes[i].code = 0;
	forget_memos(m);
}

// What tells a code object from another one that had its address before: what its line table says,
// as far as 32 bytes go, its name and first line. Those that are alike in all of these are told
// alike. 0 = it is none of the program's.
static FM_SIGSAFE uint64_t print_of(uint64_t code)
{
	const struct fm_py_row *row = &fm_sig.python.row;
	uint64_t type, name, n = 0, table, words[4], print = code;
	uint32_t first_line;
	if (!fm_sig_read_u64(code + row->object_type, &type) || type != fm_sig.python.code_type ||
	    !fm_sig_read_u64(code + row->code_line_table, &table) || !fm_sig_read_u64(code + row->code_name, &name) ||
	    !fm_sig_read_u32(code + row->code_first_line, &first_line))
		return 0;
	print = mix(print, name);
	print = mix(print, first_line);
	if (!fm_sig_read_u64(table + row->bytes_size, &n) ||
	    !fm_sig_read(table + row->bytes_data, words, sizeof(words)))
		n = 0;
	print = mix(print, n);
	for (uint64_t i = 0; i < 4 && 8 * i < n; i++) {
		uint64_t left = n - 8 * i;
		print = mix(print, left < 8 ? words[i] & ((1ull << 8 * left) - 1) : words[i]);
	}
	return print | 1;
}

FM_SIGSAFE __attribute__((noinline)) bool fm_sig_mirror_load(struct fm_sig_thread *t, struct fm_sig_mirror_frame *f)
{
	const struct fm_sig_mirror_layout *l = &t->frame_cache->layout;
	if (!read_code(l, f->frame, &f->code) || !read_lasti(l, f->frame, &f->lasti))
		return false;
	struct fm_sig_mirror_code *known = &t->frame_cache->codes[f->code >> 4 & (FM_SIG_MIRROR_CODES - 1)];
	if (known->code != f->code) {
		uint8_t byte;
		if (!fm_sig_read_u8(f->code, &byte))
			return false;
		if (f->code - l->image_start >= l->image_bytes) // the interpreter's own stay
			fm_sig_block_watch((const void *)f->code);
		*known = (struct fm_sig_mirror_code){ f->code, print_of(f->code) };
	}
	f->print = known->print;
	f->own = hash_frame(f);
	return true;
}

// Puts the fresh frames inside of the first n. Returns how many there are then; what cannot be read
// ends the stack.
static FM_SIGSAFE uint32_t append(struct fm_sig_thread *t, struct fm_sig_frame_cache *m, uint32_t n, uint32_t n_fresh)
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
	m->n_used = FM_MAX(m->n_used, n);
	return n;
}

// Frames [i, n] are on the stack, under another caller than before: they are fresh. Returns that
// caller; 0 = it is not known.
static FM_SIGSAFE uint64_t uproot(struct fm_sig_frame_cache *m, uint32_t n, uint32_t i, uint32_t *n_fresh)
{
	uint64_t last = m->frames[i].frame;
	for (uint32_t k = n; k >= i && m->frames[k].frame && *n_fresh < FM_SIG_MIRROR_FRAMES; k--)
		m->fresh[(*n_fresh)++] = m->frames[k].frame;
	uint64_t previous;
	return last && fm_sig_read_u64(last + m->layout.frame_previous, &previous) ? previous : 0;
}

// Compares some of the first n frames, from where the last turn ended outwards. As compare().
FM_SIGSAFE __attribute__((noinline)) uint32_t fm_sig_mirror_take_turn(struct fm_sig_thread *t,
								      struct fm_sig_frame_cache *m, uint32_t n)
{
	uint32_t start = m->turn && m->turn < n ? m->turn : n;
	uint32_t end = start > FM_SIG_MIRROR_TURN ? start - FM_SIG_MIRROR_TURN : 0;
	m->turn = end;
	m->n_since_turn = 0;
	return compare_part(t, m, start, end, false);
}

// Of a stack with more frames than there is room for.
static FM_SIGSAFE uint64_t hash_innermost(struct fm_sig_thread *t, struct fm_sig_frame_cache *m, uint64_t frame)
{
	struct fm_sig_mirror_frame f = { .frame = frame };
	m->thread_state = 0; // nothing is kept of it
	return fm_sig_mirror_load(t, &f) && f.own ? mix(m->frames[0].hash, f.own) : m->frames[0].hash;
}

// Whatever has happened since: other frames, another thread state, none at all.
static FM_SIGSAFE __attribute__((noinline)) uint64_t hash_anew(struct fm_sig_thread *t)
{
	struct fm_sig_frame_cache *m = t->frame_cache = &fm_sig_mirrors[t->idx];
	m->thread_state = 0;
	if (!atomic_load_explicit(&fm_sig.has_python, memory_order_acquire))
		return 1;
	read_layout(&m->layout);
	m->frames[0].hash = 1;
	if (m->epoch != atomic_load_explicit(&fm_sig_mirror_epoch, memory_order_relaxed))
		forget(m);
	if (m->n_until_check-- == 0) {
		fm_sig_fault_check(NULL);
		m->n_until_check = STACKS_PER_CHECK;
	}
	uint64_t frame = first_frame(t, m), innermost = frame;
	if (!frame) {
		m->thread_state = 0;
		return 1;
	}
	if (FM_UNLIKELY(m->n_skip)) {
		m->n_skip--;
		return hash_innermost(t, m, innermost);
	}
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
		uint64_t previous;
		if (!fm_sig_read_u64(frame + m->layout.frame_previous, &previous))
			break;
		m->fresh[n_fresh++] = frame;
		frame = previous;
	}
	if (!frame)
		n = 0;
	if (FM_UNLIKELY(n + n_fresh >= FM_SIG_MIRROR_FRAMES)) {
		m->n_skip = n_fresh; // so many blocks pay for having looked
		return hash_innermost(t, m, innermost);
	}
	if (n_fresh)
		n = append(t, m, n, n_fresh);
	m->last = &m->frames[n];
	if (!n)
		m->thread_state = 0;
	return rehash(m, n);
}

// The same with less than the whole stack.
FM_SIGSAFE __attribute__((noinline)) void fm_sig_mirror_hash_less(const struct fm_sig_frame_cache *m,
								  struct fm_sig_mirror_frame *f)
{
	bool is_seen_outside = false;
	// Further out than this nobody looks: a recursion that takes so many calls to come round
	// again is told as it is.
	const struct fm_sig_mirror_frame *end = f - m->frames > FM_SIG_MIRROR_DEEP ? f - FM_SIG_MIRROR_DEEP : m->frames;
	for (const struct fm_sig_mirror_frame *outer = f - 1; outer > end && !is_seen_outside; outer--)
		is_seen_outside = outer->own == f->own;
	if (!f->own || (m->of != FM_SIG_HASH_INNERMOST && is_seen_outside))
		f->hash = f[-1].hash;
	else
		f->hash = mix(m->of == FM_SIG_HASH_INNERMOST ? m->frames[0].hash : f[-1].hash, f->own);
}

static FM_ALWAYS_INLINE bool is_still_ours(const struct fm_sig_frame_cache *m, uint64_t ts)
{
	uint64_t owner;
	return ts == m->thread_state && fm_sig_read_u64(ts + m->layout.ts_thread_id, &owner) && owner == m->thread &&
	       m->epoch == atomic_load_explicit(&fm_sig_mirror_epoch, memory_order_relaxed);
}

static FM_ALWAYS_INLINE uint32_t find_current(struct fm_sig_frame_cache *m, uint64_t ts)
{
	uint64_t frame = current_frame(&m->layout, ts);
	if (FM_UNLIKELY(!frame))
		return 0;
	return m->last->frame == frame ? (uint32_t)(m->last - m->frames) : find(m, frame);
}

// True when frames [1, n] are still a stack; what has changed in them is taken over.
static FM_ALWAYS_INLINE bool follow(struct fm_sig_thread *t, struct fm_sig_frame_cache *m, uint32_t n)
{
	return !(m->layout.is_lasti_pointer ? compare(t, m, n, true) : compare(t, m, n, false));
}

FM_SIGSAFE uint64_t fm_sig_python_hash(struct fm_sig_thread *t, enum fm_sig_hash_of of)
{
	struct fm_sig_frame_cache *m = &fm_sig_mirrors[t->idx];
	if (FM_UNLIKELY(m->of != of)) {
		m->of = of;
		m->n_hashed = 0;
		forget_memos(m);
	}
	if (FM_UNLIKELY(!t->frame_cache || !m->thread_state))
		return hash_anew(t);
	uint64_t ts = fm_sig_current_state();
	uint32_t n = FM_LIKELY(is_still_ours(m, ts)) ? find_current(m, ts) : 0;
	if (FM_UNLIKELY(!n || !follow(t, m, n)))
		return hash_anew(t);
	m->last = &m->frames[n];
	return rehash(m, n);
}

FM_SIGSAFE const struct fm_sig_memo *fm_sig_mirror_follow(struct fm_sig_thread *t, uint64_t ts, unsigned domain)
{
	struct fm_sig_frame_cache *m = t->frame_cache;
	uint32_t n = FM_LIKELY(is_still_ours(m, ts)) ? find_current(m, ts) : 0;
	if (FM_UNLIKELY(!n))
		return NULL;
	struct fm_sig_mirror_frame *f = &m->frames[n];
	uint64_t previous;
	if (FM_UNLIKELY(!fm_sig_read_u64(f->frame + m->layout.frame_previous, &previous) || previous != f[-1].frame ||
			!follow(t, m, n - 1)))
		return NULL;
	m->last = f;
	return memo_of(m, place_key(&m->layout, f->frame, m->layout.is_lasti_pointer), rehash(m, n - 1), domain);
}

FM_SIGSAFE void fm_sig_mirror_learn(struct fm_sig_frame_cache *m, unsigned domain, struct fm_wire_site *site,
				    uint64_t token)
{
	uint64_t place = place_key(&m->layout, m->last->frame, m->layout.is_lasti_pointer), callers = m->last[-1].hash;
	*memo_at(m, place, callers, domain) = (struct fm_sig_memo){ place, callers, site, token };
}
