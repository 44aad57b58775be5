#include "agent/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/py_api.h"
#include "agent/trace_filter.h"
#include "sigsafe/python.h"
#include "sigsafe/ring.h"

// Waiting costs the program time, losing costs the user the exact answer. A collector that gets a CPU at all empties the
// ring well within this.
#define LONGEST_WAIT_NS 1000000000u
#define NAP_NS 100000
// How much C stack a thread keeps for what is not ours: the evaluator below us, and whatever it calls.
#define STACK_RESERVE_BYTES (256u << 10)

// code flags of CPython: generator, coroutine, asynchronous generator.
#define CO_GENERATOR_KINDS (0x20u | 0x80u | 0x200u)

struct fm_trace_state fm_trace;

static struct fm_trace_thread *threads; // by slot; private, sparse, zeros in a forked child

void fm_trace_join(void)
{
	atomic_fetch_add(&fm_trace.generation, 1);
	atomic_store(&fm_trace.next_name_id, 0);
	uint32_t clock = fm_sig.header ? fm_sig.header->trace_clock : 0;
	fm_trace.has_cycles = clock == FM_WIRE_CLOCK_CYCLES;
	if (clock && !threads)
		threads = fm_agent_map_private(sizeof(struct fm_trace_thread) * FM_WIRE_N_SLOTS);
	atomic_store(&fm_trace.is_recording, clock != 0 && threads != NULL);
}

void fm_trace_forget(void)
{
	atomic_store(&fm_trace.is_recording, 0);
	for (uint32_t i = 0; threads && i < FM_WIRE_N_SLOTS; i++)
		if (threads[i].control) {
			munmap(threads[i].control, FM_WIRE_TRACE_SLOT_BYTES);
			memset(&threads[i], 0, sizeof(threads[i])); // the ids in it mean nothing to the next capture
		}
}

bool fm_trace_is_writing(void)
{
	for (uint32_t i = 0; threads && i < FM_WIRE_N_SLOTS; i++)
		// Only rings that were used: the pages of the others do not exist yet. Acquire: pairs with leave() of zone_api.c.
		if (fm_sig.threads[i].trace && atomic_load_explicit(&threads[i].is_writing, memory_order_acquire))
			return true;
	return false;
}

void fm_trace_forget_codes(void)
{
	for (uint32_t i = 0; threads && i < FM_WIRE_N_SLOTS; i++)
		if (threads[i].control)
			memset(threads[i].codes, 0, sizeof(threads[i].codes));
}

static bool map_ring(struct fm_trace_thread *t, uint32_t idx)
{
	int fd = open(fm_sig.ring_path, O_RDWR | O_CLOEXEC);
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
	t->events = (void *)((uint8_t *)p + FM_WIRE_CONTROL_BYTES);
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
	return (uintptr_t)lowest + FM_MIN((size_t)STACK_RESERVE_BYTES, size / 4);
}

struct fm_trace_thread *fm_trace_open(void)
{
	if (!atomic_load_explicit(&fm_trace.is_recording, memory_order_acquire))
		return NULL;
	int saved_errno = errno;
	// Signals are blocked: a sample taken in between would claim a second slot.
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	struct fm_trace_thread *t = NULL;
	struct fm_sig_thread *s = fm_sig_thread_get();
	if (s) {
		uint32_t idx = (uint32_t)(s - fm_sig.threads);
		t = &threads[idx];
		if (!t->control && !map_ring(t, idx)) {
			atomic_store(&fm_trace.is_recording, 0); // the collector is gone
			t = NULL;
		}
	}
	if (t) { // an earlier thread may have had the slot
		t->head = atomic_load_explicit(&t->control->head, memory_order_relaxed);
		t->limit = t->head;
		t->n_lost = 0;
		t->depth = t->lowest_depth = 0;
		t->armed = 0;
		t->stack_floor = find_stack_floor();
		atomic_store_explicit(&s->slot->has_trace, 1, memory_order_release);
		s->trace = t;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	errno = saved_errno;
	return t;
}

static uint64_t room(const struct fm_trace_thread *t)
{
	// Acquire: what lies below tail has been read before we overwrite it.
	return FM_WIRE_TRACE_EVENTS - (t->head - atomic_load_explicit(&t->control->tail, memory_order_acquire));
}

// Says where events are missing: how many, how far the stack went down meanwhile, and how deep it is now.
static void tell_loss(struct fm_trace_thread *t)
{
	uint64_t n = t->n_lost;
	t->n_lost = 0;
	fm_trace_push(t, fm_trace_stamp(), FM_WIRE_LOST, (uint32_t)FM_MIN(n, (uint64_t)UINT32_MAX));
	fm_trace_push(t, (uint64_t)(uint32_t)t->lowest_depth << 32 | (uint32_t)t->depth, FM_WIRE_VALUE, 0);
}

bool fm_trace_make_room(struct fm_trace_thread *t)
{
	if (!t->control)
		return false;
	uint64_t free_events = room(t);
	if (free_events == 0 && !t->n_lost) {
		int saved_errno = errno;
		struct timespec nap = { .tv_nsec = NAP_NS };
		uint64_t until_ns = fm_now_ns() + LONGEST_WAIT_NS;
		while ((free_events = room(t)) == 0 && fm_now_ns() < until_ns && !atomic_load(&fm_sig.header->is_over))
			nanosleep(&nap, NULL);
		errno = saved_errno;
	}
	if (free_events == 0 || (t->n_lost && free_events < FM_WIRE_TRACE_EVENTS / 2)) {
		// Two events are on their way in by the time we are called: the depth is already the new one.
		t->lowest_depth = t->n_lost ? FM_MIN(t->lowest_depth, t->depth) : t->depth;
		t->n_lost++;
		atomic_fetch_add_explicit(&t->control->n_lost, 1, memory_order_relaxed);
		return false;
	}
	t->limit = t->head + free_events;
	if (t->n_lost) {
		t->lowest_depth = FM_MIN(t->lowest_depth, t->depth);
		t->n_lost++; // the event that asks for room: its depth is counted, so it is told as lost
		atomic_fetch_add_explicit(&t->control->n_lost, 1, memory_order_relaxed);
		tell_loss(t);
		return false;
	}
	return true;
}

static bool is_wanted(uintptr_t code)
{
	struct py_object *file = *(struct py_object **)(code + fm_sig.python.row.code_filename);
	intptr_t len;
	if (PyErr_Occurred())
		return true; // thrown into a generator that never ran: the program's exception must not be lost to ours
	// May make the UTF-8 form of the name, once: we hold the GIL.
	const char *text = PyUnicode_AsUTF8AndSize(file, &len);
	if (!text)
		PyErr_Clear();
	return !text || fm_trace_filter_allows(text);
}

void fm_trace_meet_code(struct fm_trace_thread *t, struct fm_trace_code *entry, uintptr_t code)
{
	const struct fm_py_row *row = &fm_sig.python.row;
	(void)t;
	// The definition goes into the ring that samples use: none may come between.
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	uint32_t id = fm_sig_code_id(fm_sig_self, code);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	entry->code = id == FM_WIRE_NO_CODE ? 0 : code; // 0: that ring was full, ask again
	entry->name = *(const uintptr_t *)(code + row->code_name);
	entry->lines = *(const uintptr_t *)(code + row->code_line_table);
	entry->id = id == FM_SIG_NOT_A_FUNCTION || !is_wanted(code) ? 0 : id;
	entry->is_generator = row->code_flags && *(const uint32_t *)(code + row->code_flags) & CO_GENERATOR_KINDS;
}

uint32_t fm_trace_tell_name(uint32_t kind, const char *name, size_t len)
{
	if (!fm_trace_self())
		return 0;
	uint32_t id = atomic_fetch_add(&fm_trace.next_name_id, 1) + 1;
	len = FM_MIN(len, (size_t)4096);
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	struct fm_wire_trace_name *rec = fm_sig_ring_reserve(fm_sig_self, FM_WIRE_TRACE_NAME, sizeof(*rec) + len);
	if (rec) {
		rec->id = id;
		rec->kind = kind;
		rec->name_len = (uint32_t)len;
		rec->reserved = 0;
		memcpy(rec->bytes, name, len);
		fm_sig_ring_commit(fm_sig_self, &rec->rec);
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return rec ? id : 0;
}
