// SPDX-License-Identifier: Apache-2.0
#include "agent/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/py_api.h"
#include "agent/trace_filter.h"
#include "sigsafe/python/python.h"
#include "sigsafe/base/fault.h"
#include "sigsafe/base/quiet.h"
#include "sigsafe/base/claim.h"
#include "sigsafe/base/ring.h"

// Waiting costs the program time, losing costs the user the exact answer. A collector that is there
// empties the ring well within this, on the busiest machine and the slowest disk; one that is gone
// is not waited for.
#define LONGEST_WAIT_NS 30000000000u
#define LOOK_NS 100000000u // how often to look whether it is
#define NAP_NS 100000
#define FIRST_BACKED 1024u // events: four pages
// Whether somebody still reads is asked once in so many events: every millisecond of bare
// recursion, and of what is slower it costs less.
#define LOOK_EVENTS 16384u
// A collector that was stopped, and that a trace can wait for no longer: after this it has ended.
// Until then what is lost is counted, and told when there is room again.
#define LONGEST_LOSS_NS 5000000000u
// How much C stack a thread keeps for what is not ours: the evaluator below us, and whatever it
// calls.
#define STACK_RESERVE_BYTES (256u << 10)

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 // Linux 5.14
#endif

// Of a name and of its file: what is longer is cut.
#define MAX_NAME_BYTES ((size_t)4096)

// code flags of CPython: generator, coroutine, asynchronous generator. And where they are, up to
// 3.10 and, behind the word with the size, from 3.11 on.
#define CODE_FLAGS_38 36
#define CODE_FLAGS_311_BEHIND_SIZE 32
#define CO_GENERATOR_KINDS (0x20u | 0x80u | 0x200u)

struct fm_trace_state fm_trace = { .calls_generation = FM_TRACE_NO_CALLS,
				   .plain_generation = FM_TRACE_NO_CALLS,
				   .hook_generation = FM_TRACE_NO_CALLS };
__thread struct fm_trace_own fm_trace_own;

// By slot, mapped at its first event; private, zeros in a forked child.
static struct fm_trace_thread *_Atomic threads[FM_WIRE_N_SLOTS];

void fm_trace_renew(bool is_on)
{
	uint32_t generation = atomic_fetch_add(&fm_trace.generation, 1) + 1;
	atomic_store(&fm_trace.is_on, is_on);
	atomic_store(&fm_trace.calls_generation, is_on ? generation : FM_TRACE_NO_CALLS);
	uint32_t plain = is_on && !fm_trace.flags ? generation : FM_TRACE_NO_CALLS;
	atomic_store(&fm_trace.plain_generation, plain);
	atomic_store(&fm_trace.hook_generation, fm_trace.door == FM_TRACE_BY_HOOK ? plain : FM_TRACE_NO_CALLS);
}

void fm_trace_join(void)
{
	fm_trace_renew(atomic_load(&fm_trace.is_on)); // a forked child goes on
	atomic_store(&fm_trace.next_name_id, 0);
	uint32_t clock = fm_sig.header ? fm_sig.header->trace_clock : 0;
	fm_trace.has_cycles = clock == FM_WIRE_CLOCK_CYCLES;
	atomic_store(&fm_trace.is_recording, clock != 0);
}

void fm_trace_end(void)
{
	atomic_store(&fm_trace.is_recording, 0);
	fm_trace_renew(false);
}

void fm_trace_forget(void)
{
	fm_trace_end();
	for (uint32_t i = 0; i < FM_WIRE_N_SLOTS; i++) {
		struct fm_trace_thread *t = threads[i];
		if (t && t->control) {
			munmap(t->control, FM_WIRE_TRACE_SLOT_BYTES);
			memset(t, 0, sizeof(*t)); // the ids in it mean nothing to the next capture
		}
	}
}

bool fm_trace_is_writing(void)
{
	for (uint32_t i = 0; i < FM_WIRE_N_SLOTS; i++) {
		struct fm_trace_thread *t = threads[i];
		// Acquire: pairs with leave() of zone_api.c.
		if (t && atomic_load_explicit(&t->is_writing, memory_order_acquire))
			return true;
	}
	return false;
}

void fm_trace_forget_codes(void)
{
	fm_trace.is_filter_new = true;
	for (uint32_t i = 0; i < FM_WIRE_N_SLOTS; i++) {
		struct fm_trace_thread *t = threads[i];
		if (t && t->control)
			memset(t->codes, 0, sizeof(t->codes));
	}
}

static bool map_ring(struct fm_trace_thread *t, uint32_t idx)
{
	int fd = open(fm_sig.shared_path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return false;
	void *p = mmap(NULL, FM_WIRE_TRACE_SLOT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
		       (off_t)(FM_WIRE_TRACE_OFFSET + idx * FM_WIRE_TRACE_SLOT_BYTES));
	close(fd);
	if (p == MAP_FAILED)
		return false;
	madvise(p, FM_WIRE_TRACE_SLOT_BYTES, MADV_DONTDUMP);
	madvise(p, FM_WIRE_TRACE_SLOT_BYTES, MADV_DONTFORK); // a child makes its own
	t->control = p;
	return true;
}

static uintptr_t find_stack_floor(void)
{
	pthread_attr_t attr;
	void *lowest = NULL;
	size_t size = 0;
	if (pthread_getattr_np(pthread_self(), &attr) != 0)
		return 0;
	pthread_attr_getstack(&attr, &lowest, &size);
	pthread_attr_destroy(&attr);
	// From 3.12 on there is another way to go on, and the program may have its half untouched.
	size_t reserve = fm_sig.python.row.minor >= 12 ? size / 2 : FM_MIN((size_t)STACK_RESERVE_BYTES, size / 4);
	return (uintptr_t)lowest + reserve;
}

struct fm_trace_thread *fm_trace_open(void)
{
	if (!atomic_load_explicit(&fm_trace.is_recording, memory_order_acquire))
		return NULL;
	uint32_t generation = atomic_load(&fm_trace.generation);
	int saved_errno = errno, was_cancelable;
	// A thread that somebody has cancelled goes on to a call that says so of itself: none of ours
	// does, and what is held here would stay held.
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was_cancelable);
	// Signals are blocked: a sample taken in between would claim a second slot.
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	struct fm_trace_thread *t = NULL;
	struct fm_sig_thread *s = fm_sig_thread_get();
	if (s) {
		uint32_t idx = s->idx;
		t = threads[idx];
		if (!t) { // two statements: clang takes no value from an assignment to what is atomic
			t = fm_agent_map_private(sizeof(*t));
			threads[idx] = t;
		}
		if (!t || (!t->control && !map_ring(t, idx))) {
			atomic_store(&fm_trace.is_recording, 0); // the collector is gone, or there is no address space
			t = NULL;
		}
	}
	if (t && s->trace != t) { // an earlier thread may have had the slot
		t->limit = 0;
		t->n_lost = 0;
		t->armed = t->n_starts = 0;
		t->has_lines = t->is_setting = t->is_refused = false;
		t->stack_floor = find_stack_floor();
		atomic_store_explicit(&s->slot->has_trace, 1, memory_order_release);
		s->trace = t;
	}
	if (t)
		fm_trace_own = (struct fm_trace_own){ t, generation };
	if (t && atomic_load(&fm_trace.is_on) && t->n_starts != fm_trace.n_starts) {
		t->n_starts = fm_trace.n_starts;
		fm_trace_push_now(t, FM_WIRE_TRACE_ON, 0);
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_setcancelstate(was_cancelable, NULL);
	errno = saved_errno;
	return t;
}

static uint64_t room(const struct fm_trace_thread *t)
{
	// Acquire: what lies below tail has been read before we overwrite it.
	return FM_WIRE_TRACE_EVENTS -
	       (fm_trace_head(t) - atomic_load_explicit(&t->control->tail, memory_order_acquire));
}

// A killed one may stay in the table of processes for long: nobody has to wait for an orphan. One
// that was stopped must not stop us.
static bool is_collector_there(void)
{
	char path[32], text[512];
	snprintf(path, sizeof(path), "/proc/%u/stat", fm_sig.collector_pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len = fd >= 0 ? read(fd, text, sizeof(text)) : -1;
	if (fd >= 0)
		close(fd);
	const char *name_end = len > 0 ? memrchr(text, ')', (size_t)len) : NULL;
	return name_end && name_end + 2 < text + len && !strchr("ZXxTt", name_end[2]);
}

// Counts an event as lost, and what it would have done to the stack of what is open.
static void lose(struct fm_trace_thread *t, uint32_t kind)
{
	if (!t->n_lost)
		t->lost_depth = t->lost_lowest = 0;
	if (kind == FM_WIRE_ENTER || kind == FM_WIRE_RESUME || kind == FM_WIRE_BEGIN)
		t->lost_depth++;
	else if (kind == FM_WIRE_LEAVE || kind == FM_WIRE_END)
		t->lost_depth--;
	t->lost_lowest = FM_MIN(t->lost_lowest, t->lost_depth);
	t->n_lost++;
	atomic_fetch_add_explicit(&t->control->n_lost, 1, memory_order_relaxed);
}

// Says where events are missing: how many, how far the stack went down meanwhile, and how far up
// again.
static void tell_loss(struct fm_trace_thread *t)
{
	uint64_t n = t->n_lost;
	uint32_t down = (uint32_t)-t->lost_lowest, up = (uint32_t)(t->lost_depth - t->lost_lowest);
	t->n_lost = 0;
	fm_trace_push_now(t, FM_WIRE_LOST, (uint32_t)FM_MIN(n, (uint64_t)UINT32_MAX));
	fm_trace_push(t, (uint64_t)down << 32 | up, FM_WIRE_VALUE, 0);
}

// Until there is room; 0 when it was not worth waiting.
static uint64_t wait_for_room(const struct fm_trace_thread *t)
{
	int saved_errno = errno, was_cancelable;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was_cancelable); // as in fm_trace_open()
	struct timespec nap = { .tv_nsec = NAP_NS };
	uint64_t now_ns = fm_now_ns(), until_ns = now_ns + LONGEST_WAIT_NS, look_ns = now_ns + LOOK_NS, free_events;
	while ((free_events = room(t)) == 0 && now_ns < until_ns && !fm_sig_is_over()) {
		if (now_ns >= look_ns && !is_collector_there()) {
			fm_sig_quiet_begin(now_ns);
			break;
		}
		if (now_ns >= look_ns)
			look_ns = now_ns + LOOK_NS;
		nanosleep(&nap, NULL);
		now_ns = fm_now_ns();
	}
	pthread_setcancelstate(was_cancelable, NULL);
	errno = saved_errno;
	return free_events;
}

// Asks for the ring's pages in ever larger parts, ahead of the writer: a fault for each costs 2 us
// on a virtual machine. Where the system cannot do it, faults it is.
static uint64_t back_events(struct fm_trace_thread *t)
{
	uint64_t n = FM_MIN(FM_MAX(t->n_backed, (uint64_t)FIRST_BACKED), FM_WIRE_TRACE_EVENTS - t->n_backed);
	uintptr_t from = (uintptr_t)fm_wire_trace_event(t->control, t->n_backed) & ~4095ul;
	int saved_errno = errno;
	madvise((void *)from, n * sizeof(struct fm_wire_event), MADV_POPULATE_WRITE);
	errno = saved_errno;
	t->n_backed += n;
	return n;
}

// For good, or for longer than a trace can bridge.
static bool is_nobody_there(const struct fm_trace_thread *t)
{
	if (t->n_lost % 1024) // it has lost some since the last look, and looks seldom
		return false;
	uint64_t now_ns = fm_now_ns();
	if (atomic_load_explicit(&fm_sig.counts->is_over, memory_order_relaxed))
		return true;
	if (!fm_sig_quiet_poll(fm_sig_self, now_ns) && !fm_sig_is_quiet())
		return false;
	uint32_t state = atomic_load(&fm_sig_quiet.state);
	// Since when it is quiet stands only once it is; and that may be since after our look at the clock.
	return state == FM_SIG_GONE ||
	       (state == FM_SIG_QUIET &&
		(int64_t)(now_ns - atomic_load(&fm_sig_quiet.since_ns)) > (int64_t)LONGEST_LOSS_NS);
}

// Nothing is recorded any more. Threads may be writing an event just now: their rings' first pages
// stay, with how far they are.
static void give_up(void)
{
	int saved_errno = errno;
	if (atomic_exchange(&fm_trace.is_on, 0)) {
		atomic_fetch_add(&fm_sig.counts->n_traces_ended, 1);
		atomic_store(&fm_trace.is_left, 1);
		fm_trace.is_filter_new = true; // places that are asked no more are, by the next trace
	}
	fm_trace_end();
	for (uint32_t i = 0; i < FM_WIRE_N_SLOTS; i++) {
		struct fm_trace_thread *t = threads[i];
		if (t && t->control && atomic_load(&fm_sig_quiet.state) == FM_SIG_GONE)
			madvise((uint8_t *)t->control + FM_WIRE_CONTROL_BYTES,
				FM_WIRE_TRACE_SLOT_BYTES - FM_WIRE_CONTROL_BYTES, MADV_REMOVE);
	}
	errno = saved_errno;
}

bool fm_trace_make_room(struct fm_trace_thread *t, uint32_t kind)
{
	if (!t->control)
		return false;
	if (is_nobody_there(t)) {
		give_up();
		return false;
	}
	uint64_t free_events = room(t);
	if (free_events == 0 && !t->n_lost)
		free_events = wait_for_room(t);
	if (free_events == 0 || (t->n_lost && free_events < FM_WIRE_TRACE_EVENTS / 2)) {
		lose(t, kind);
		return false;
	}
	if (t->n_backed < FM_WIRE_TRACE_EVENTS) {
		uint64_t n_backed = back_events(t);
		free_events = FM_MIN(free_events, n_backed);
	}
	uint64_t head = fm_trace_head(t), in_lap = head & (FM_WIRE_TRACE_EVENTS - 1);
	t->lap = (uintptr_t)fm_wire_trace_event(t->control, head) - head * sizeof(struct fm_wire_event);
	t->limit = head + FM_MIN(FM_MIN(free_events, FM_WIRE_TRACE_EVENTS - in_lap), (uint64_t)LOOK_EVENTS);
	if (t->n_lost)
		tell_loss(t); // which may take the last ones of this lap
	return fm_trace_has_room(t, &head) || fm_trace_make_room(t, kind);
}

// Asks the filter. May make the UTF-8 form of the names, once, which takes an attached thread.
static void choose(struct fm_trace_code *entry)
{
	const struct fm_py_row *row = &fm_sig.python.row;
	intptr_t len;
	entry->has_lines = fm_trace.flags & FM_TRACE_LINES;
	if (PyErr_Occurred())
		return; // thrown into a generator that never ran: the program's exception must not be lost to ours
	bool is_qualified = row->code_qualname != 0;
	uint16_t name_at = is_qualified ? row->code_qualname : row->code_name;
	const char *file = PyUnicode_AsUTF8AndSize(*(struct py_object **)(entry->code + row->code_filename), &len);
	const char *name = PyUnicode_AsUTF8AndSize(*(struct py_object **)(entry->code + name_at), &len);
	if (!file || !name) {
		PyErr_Clear();
		return;
	}
	if (!fm_trace_filter_allows(file))
		entry->id = 0;
	entry->has_lines = entry->id && entry->has_lines && fm_trace_filter_has_lines(file, name, is_qualified);
}

void fm_trace_meet_code(struct fm_trace_thread *t, struct fm_trace_code *entry, uintptr_t code)
{
	const struct fm_py_row *row = &fm_sig.python.row;
	if (!t->control) { // forked past the C library: nobody follows this child
		*entry = (struct fm_trace_code){ 0 };
		return;
	}
	// The definition goes into the ring that samples use: none may come between. A fault may: it
	// would end the program where it is blocked.
	sigset_t all, old;
	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	fm_sig_fault_check(NULL);
	uint32_t id = fm_sig_code_id(fm_sig_self, code);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	entry->code = code;
	entry->name = *(const uintptr_t *)(code + row->code_name);
	entry->lines = *(const uintptr_t *)(code + row->code_line_table);
	entry->id = id == FM_SIG_NOT_A_FUNCTION ? 0 : id;
	unsigned flags_at = row->minor >= 11 ? row->bytes_size + CODE_FLAGS_311_BEHIND_SIZE : CODE_FLAGS_38;
	entry->is_generator = *(const uint32_t *)(code + flags_at) & CO_GENERATOR_KINDS;
	if (entry->id)
		choose(entry);
	entry->is_plain = entry->id && !entry->is_generator;
	if (id == FM_WIRE_NO_CODE)
		entry->code = 0; // that ring was full, ask again
}

uint32_t fm_trace_tell_place(uint32_t kind, const char *name, size_t len, const char *file, uint32_t line)
{
	const struct fm_trace_thread *t = fm_trace_self();
	if (!t || !t->control)
		return 0;
	uint32_t id = atomic_fetch_add(&fm_trace.next_name_id, 1) + 1;
	len = FM_MIN(len, MAX_NAME_BYTES);
	size_t file_len = file ? strnlen(file, MAX_NAME_BYTES) : 0;
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	struct fm_wire_trace_name *rec =
		fm_sig_ring_reserve(fm_sig_self, FM_WIRE_TRACE_NAME, sizeof(*rec) + len + file_len);
	if (rec) {
		rec->id = id;
		rec->kind = kind;
		rec->name_len = (uint32_t)len;
		rec->file_len = (uint32_t)file_len;
		rec->line = line;
		rec->reserved = 0;
		memcpy(rec->bytes, name, len);
		if (file_len)
			memcpy(rec->bytes + len, file, file_len);
		fm_sig_ring_commit(fm_sig_self, &rec->rec);
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return rec ? id : 0;
}

uint32_t fm_trace_tell_name(uint32_t kind, const char *name, size_t len)
{
	return fm_trace_tell_place(kind, name, len, NULL, 0);
}
