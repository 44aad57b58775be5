#include "sigsafe/exact.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "base/clock.h"
#include "format/model.h"
#include "sigsafe/alloc.h"
#include "sigsafe/merge.h"
#include "sigsafe/python.h"
#include "sigsafe/raw.h"
#include "sigsafe/ring.h"
#include "sigsafe/stack.h"

#include "sigsafe/sigsafe.h"

#define MAX_TRIES (1u << 14) // of the lock; who has it counts one event, or moves the table once in a while
#define SIZE_BITS 44
#define MAX_FRAMES 4096 // deeper stacks are told apart by their inner part

// glibc 2.32 and later: not 0 while the process has one thread. Older ones do not have it.
extern char __libc_single_threaded __attribute__((weak));

struct fm_sig_exact *fm_sig_exact;
struct fm_sig_exact_block *fm_sig_exact_blocks;
uint32_t fm_sig_exact_max_log2;
struct fm_wire_exact *fm_sig_exact_sums;

static FM_SIGSAFE void count_lost(void)
{
	atomic_fetch_add_explicit(&fm_sig_exact_sums->n_lost, 1, memory_order_relaxed);
}

static FM_SIGSAFE bool is_single_threaded(void)
{
	return &__libc_single_threaded && __libc_single_threaded;
}

static FM_SIGSAFE __attribute__((noinline)) bool lock_among_threads(void)
{
	for (unsigned i = 0; i < MAX_TRIES; i++) {
		if (!atomic_exchange_explicit(&fm_sig_exact->is_locked, 1, memory_order_acquire))
			return true;
		for (unsigned k = 0; k < 16; k++)
			if (!atomic_load_explicit(&fm_sig_exact->is_locked, memory_order_relaxed))
				break;
	}
	return false;
}

// Ours alone. A signal handler of the program that allocates while its own thread has it, and a thread that waits too long for
// another one that was put off the CPU, give up; that is counted. A thread that is alone needs no more than its own mark: none can
// be made while it is in here.
static FM_SIGSAFE bool lock(void)
{
	if (!fm_sig_exact_sums)
		return false;
	if (!fm_sig_alloc.has_lock && (is_single_threaded() || lock_among_threads())) {
		fm_sig_alloc.has_lock = true;
		atomic_signal_fence(memory_order_seq_cst);
		return true;
	}
	count_lost();
	return false;
}

static FM_SIGSAFE void unlock(void)
{
	atomic_signal_fence(memory_order_seq_cst);
	fm_sig_alloc.has_lock = false;
	atomic_store_explicit(&fm_sig_exact->is_locked, 0, memory_order_release);
}

// ---- blocks ----

static FM_SIGSAFE struct fm_sig_exact_block *table_of(uint32_t log2)
{
	// Tables of 2^16, 2^17, ... entries behind each other: each begins where all smaller ones end.
	return fm_sig_exact_blocks + ((1ull << log2) - (1ull << FM_SIG_EXACT_MIN_LOG2));
}

static FM_SIGSAFE uint64_t home_of(uint64_t addr, uint32_t log2)
{
	return (addr >> 4) * 0x9e3779b97f4a7c15u >> (64 - log2);
}

// Returns the token that the address had before, 0 = none.
static FM_SIGSAFE uint64_t put(struct fm_sig_exact_block *table, uint32_t log2, uint64_t addr, uint64_t token)
{
	uint64_t mask = (1ull << log2) - 1, i = home_of(addr, log2);
	while (table[i].addr && table[i].addr != addr)
		i = (i + 1) & mask;
	uint64_t before = table[i].addr ? table[i].token : 0;
	table[i].addr = addr;
	table[i].token = token;
	return before;
}

// False when it may not grow any more.
static FM_SIGSAFE bool make_room(void)
{
	struct fm_sig_exact *x = fm_sig_exact;
	if (!x->log2)
		x->log2 = FM_SIG_EXACT_MIN_LOG2;
	uint64_t size = 1ull << x->log2;
	if (FM_LIKELY(x->n_blocks < size / 4 * 3))
		return true;
	if (x->log2 == fm_sig_exact_max_log2)
		return false;
	struct fm_sig_exact_block *from = table_of(x->log2), *to = table_of(x->log2 + 1);
	for (uint64_t i = 0; i < size; i++)
		if (from[i].addr)
			put(to, x->log2 + 1, from[i].addr, from[i].token);
	fm_sig_syscall(SYS_madvise, (long)from, (long)(size * sizeof(*from)), MADV_DONTNEED, 0);
	x->log2++;
	return true;
}

// Takes an address out; the entries behind it move up, so that no search ends too early.
static FM_SIGSAFE uint64_t take_out(uint64_t addr)
{
	struct fm_sig_exact *x = fm_sig_exact;
	if (!x->log2)
		return 0;
	struct fm_sig_exact_block *table = table_of(x->log2);
	uint64_t mask = (1ull << x->log2) - 1, i = home_of(addr, x->log2);
	while (table[i].addr != addr) {
		if (!table[i].addr)
			return 0;
		i = (i + 1) & mask;
	}
	uint64_t token = table[i].token;
	for (uint64_t k = (i + 1) & mask; table[k].addr; k = (k + 1) & mask) {
		uint64_t home = home_of(table[k].addr, x->log2);
		if (((k - home) & mask) >= ((k - i) & mask)) { // it may stand at i
			table[i] = table[k];
			i = k;
		}
	}
	table[i].addr = 0;
	x->n_blocks--;
	return token;
}

// ---- sites ----

static FM_SIGSAFE uint64_t mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * 0x9fb21c651e98df25u;
	return h ^ h >> 32;
}

// The innermost frame of this thread; 0 = no Python here.
static FM_SIGSAFE uint64_t first_frame(struct fm_sig_thread *t)
{
	const struct fm_sig_python *py = &fm_sig.python;
	const struct fm_py_row *row = &py->row;
	uint64_t owner, frame = 0, ts;
	if (!atomic_load_explicit(&fm_sig.has_python, memory_order_acquire))
		return 0;
	ts = (uintptr_t)py->current_thread_state();
	if (!ts || !fm_sig_read_u64(t, ts + row->ts_thread_id, &owner) || owner != (uint64_t)pthread_self())
		ts = (uintptr_t)py->gilstate_thread_state();
	if (!ts)
		return 0;
	if (row->frames == FM_PY_FRAMES_SHIM) {
		fm_sig_read_u64(t, ts + row->ts_current_frame, &frame);
	} else if (row->frames >= FM_PY_FRAMES_ENTRY_FLAG) {
		uint64_t cframe;
		if (fm_sig_read_u64(t, ts + row->ts_cframe, &cframe))
			fm_sig_read_u64(t, cframe + row->cframe_current_frame, &frame);
	} else {
		fm_sig_read_u64(t, ts + row->ts_frame, &frame);
	}
	return frame;
}

static FM_SIGSAFE uint64_t word_at(uint64_t addr)
{
	return *(const fm_sig_u64 *)addr;
}

// One number for the stack of Python frames; 1 for none. A code object's address may be used again, so its line table's goes in, too.
static FM_SIGSAFE uint64_t hash_stack(struct fm_sig_thread *t)
{
	const struct fm_py_row *row = &fm_sig.python.row;
	// One question for each frame and each code object, about all that is read of it.
	uint64_t frame_end = FM_MAX(FM_MAX(row->frame_code, row->frame_previous), row->frame_lasti) + 8;
	uint64_t code_end = FM_MAX(row->object_type, row->code_line_table) + 8;
	uint64_t lasti_mask = row->lasti == FM_PY_LASTI_POINTER ? ~0ull : UINT32_MAX;
	uint64_t h = 1, frame = first_frame(t), previous;
	for (unsigned n = 0; frame && n < MAX_FRAMES; n++, frame = previous) {
		if (!fm_sig_readable(t, frame, frame_end))
			break;
		uint64_t code = word_at(frame + row->frame_code) & ~(uint64_t)row->executable_tag_mask;
		uint64_t lasti = word_at(frame + row->frame_lasti) & lasti_mask;
		previous = word_at(frame + row->frame_previous);
		if (!fm_sig_readable(t, code, code_end))
			break;
		if (word_at(code + row->object_type) != fm_sig.python.code_type)
			continue; // a frame of the interpreter's own
		h = mix(h, code ^ word_at(code + row->code_line_table) << 16 ^ lasti * 0x9e3779b97f4a7c15u);
	}
	return h;
}

// The site of a key; a new one when it was never seen. Under the lock.
static FM_SIGSAFE uint32_t find_site(uint64_t key)
{
	struct fm_wire_site *sites = fm_wire_exact_sites(fm_sig_exact_sums);
	uint32_t n = atomic_load_explicit(&fm_sig_exact_sums->n_sites, memory_order_relaxed);
	uint32_t i = (uint32_t)(key >> 40) & (FM_SIG_EXACT_INDEX - 1);
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
	atomic_store_explicit(&fm_sig_exact_sums->n_sites, n + 1, memory_order_release);
	return n;
}

// Tells the stack of a site that was seen first, or whose telling found no room before.
static FM_SIGSAFE __attribute__((noinline, cold)) void tell(struct fm_sig_thread *t, uint32_t site, unsigned domain)
{
	ucontext_t uc;
	bool is_collecting;
	uint32_t leaf_idx, exact_idx;
	for (unsigned i = 0; i < sizeof(uc) / sizeof(uint64_t); i++) // no register is looked at: the frames are at rest
		((uint64_t *)&uc)[i] = 0;
	t->now_ns = fm_now_ns();
	fm_sig_stack_refresh(t);
	fm_sig_python_walk(t, &uc, &is_collecting);
	t->n_native = t->native_error = 0;
	t->exact_native = UINT32_MAX;
	fm_sig_merge(t, -1, &leaf_idx, &exact_idx);
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
	fm_sig_stack_told(t, n_shared);
	fm_sig_ring_commit(t, &rec->rec);
	fm_sig_exact->is_told[site] = 1;
}

// ---- events ----

static FM_SIGSAFE void count_freed(uint64_t token)
{
	struct fm_wire_site *sites = fm_wire_exact_sites(fm_sig_exact_sums);
	fm_wire_exact_remove(fm_sig_exact_sums, &sites[token >> SIZE_BITS], token & ((1ull << SIZE_BITS) - 1));
}

static FM_SIGSAFE void keep(const void *p, uint64_t token)
{
	uint64_t before = put(table_of(fm_sig_exact->log2), fm_sig_exact->log2, (uintptr_t)p, token);
	if (FM_UNLIKELY(before != 0))
		count_freed(before); // its end was lost
	else
		fm_sig_exact->n_blocks++;
}

FM_SIGSAFE uint64_t fm_sig_exact_alloc(const void *p, uint64_t size, unsigned domain, bool is_kept)
{
	struct fm_sig_thread *t = fm_sig_alloc_enter();
	if (!t) {
		if (fm_sig_exact_sums)
			count_lost();
		return 0;
	}
	uint64_t key = mix(hash_stack(t), domain + 1) | 1, token = 0;
	if (lock()) {
		if (!is_kept || make_room()) {
			uint32_t site = find_site(key);
			token = (uint64_t)site << SIZE_BITS | size;
			if (is_kept)
				keep(p, token);
			fm_wire_exact_add(fm_sig_exact_sums, &fm_wire_exact_sites(fm_sig_exact_sums)[site], size);
		} else {
			count_lost();
		}
		unlock();
		if (FM_UNLIKELY(token && !fm_sig_exact->is_told[token >> SIZE_BITS]))
			tell(t, (uint32_t)(token >> SIZE_BITS), domain);
	}
	fm_sig_alloc_leave(t);
	return token;
}

FM_SIGSAFE uint64_t fm_sig_exact_take(const void *p)
{
	if (!p || !lock())
		return 0;
	uint64_t token = take_out((uintptr_t)p);
	unlock();
	return token;
}

FM_SIGSAFE void fm_sig_exact_give_back(const void *p, uint64_t token)
{
	if (!lock())
		return;
	if (make_room())
		keep(p, token);
	unlock();
}

FM_SIGSAFE void fm_sig_exact_token_freed(uint64_t token)
{
	if (!lock())
		return;
	count_freed(token);
	unlock();
}

FM_SIGSAFE void fm_sig_exact_free(const void *p)
{
	if (!p || !lock())
		return;
	uint64_t token = take_out((uintptr_t)p);
	if (token)
		count_freed(token);
	unlock();
}
