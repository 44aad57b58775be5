// SPDX-License-Identifier: Apache-2.0
// These functions run on any thread, with and without the GIL: fm_zone_enter() sees to it that
// their ring stays.
#include "agent/agent.h"
#include "agent/zone_api.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/trace.h"
#include "fathom.h"
#include "sigsafe/unwind/image.h"
#include "sigsafe/base/state.h"

#define SLOT_NAME "fathom_api_slot_v1"

// Commands of membarrier(2); older headers lack them.
#define BARRIER_PRIVATE (1 << 3)
#define BARRIER_REGISTER_PRIVATE (1 << 4)

// Texts that programs make at run time, found again by content. Never freed: an open zone is a
// pointer into it.
#define N_TEXTS 4096 // power of two
#define MAX_TEXT_BYTES 100
#define N_PROBES 64

enum text_state { TEXT_FREE, TEXT_BEING_MADE, TEXT_READY };

struct text {
	struct fathom_name name;
	_Atomic uint32_t state; // enum text_state; release when ready
	uint16_t kind, len;
	char bytes[MAX_TEXT_BYTES + 4];
};

static struct text *_Atomic texts;
static _Atomic bool is_used; // since this process began

struct fm_trace_thread *fm_zone_enter_first(void)
{
	// As a signal handler does it: late.c waits for n_inside, too.
	atomic_fetch_add(&fm_sig.n_inside, 1);
	atomic_store(&is_used, true);
	struct fm_trace_thread *t = fm_trace_open(); // looks at is_recording
	if (t)
		atomic_store(&t->is_writing, 1);
	atomic_fetch_sub(&fm_sig.n_inside, 1);
	return t;
}

bool fm_zone_api_is_busy(void)
{
	if (!atomic_load(&is_used))
		return false;
	// Where there is no membarrier the callers' naps do: a CPU's stores are seen within
	// microseconds.
	if (syscall(SYS_membarrier, BARRIER_PRIVATE, 0) != 0 &&
	    syscall(SYS_membarrier, BARRIER_REGISTER_PRIVATE, 0) == 0)
		syscall(SYS_membarrier, BARRIER_PRIVATE, 0);
	return fm_trace_is_writing();
}

static uint32_t id_of(struct fathom_name *name, uint32_t kind)
{
	uint64_t generation = atomic_load_explicit(&fm_trace.generation, memory_order_relaxed);
	uint64_t told = __atomic_load_n(&name->told, __ATOMIC_RELAXED); // generation and id in one: threads share names
	if (FM_LIKELY(told >> 32 == generation))
		return (uint32_t)told;
	// A counter is one curve wherever its values come from, and marks are one by their text.
	bool has_place = kind == FM_WIRE_NAME_ZONE;
	uint32_t id = fm_trace_tell_place(kind, name->text, strlen(name->text), has_place ? name->file : NULL,
					  has_place ? name->line : 0);
	if (id)
		__atomic_store_n(&name->told, generation << 32 | id, __ATOMIC_RELAXED);
	return id;
}

static int begin(struct fathom_name *name)
{
	struct fm_trace_thread *t = fm_zone_enter();
	if (!t)
		return 0;
	uint32_t id = id_of(name, FM_WIRE_NAME_ZONE);
	if (id)
		fm_trace_push_now(t, FM_WIRE_BEGIN, id);
	fm_zone_leave(t);
	return id != 0;
}

static void end(struct fathom_name *name)
{
	struct fm_trace_thread *t = fm_zone_enter();
	if (!t)
		return;
	uint64_t stamp = fm_trace_stamp();
	uint32_t id = id_of(name, FM_WIRE_NAME_ZONE);
	if (id)
		fm_trace_push(t, stamp, FM_WIRE_END, id);
	fm_zone_leave(t);
}

static void push_plot(struct fm_trace_thread *t, uint32_t id, double value)
{
	uint64_t bits;
	memcpy(&bits, &value, sizeof(bits));
	fm_trace_push_now(t, FM_WIRE_COUNTER, id);
	fm_trace_push(t, bits, FM_WIRE_VALUE, 0);
}

static void mark(struct fathom_name *name)
{
	struct fm_trace_thread *t = fm_zone_enter();
	if (!t)
		return;
	uint32_t id = id_of(name, FM_WIRE_NAME_MARK);
	if (id)
		fm_trace_push_now(t, FM_WIRE_MARK, id);
	fm_zone_leave(t);
}

static void plot(struct fathom_name *name, double value)
{
	struct fm_trace_thread *t = fm_zone_enter();
	if (!t)
		return;
	uint32_t id = id_of(name, FM_WIRE_NAME_COUNTER);
	if (id)
		push_plot(t, id, value);
	fm_zone_leave(t);
}

static struct text *get_texts(void)
{
	struct text *have = atomic_load(&texts);
	if (have)
		return have;
	struct text *new = mmap(NULL, sizeof(struct text) * N_TEXTS, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (new == MAP_FAILED)
		return NULL;
	if (atomic_compare_exchange_strong(&texts, &have, new))
		return new;
	munmap(new, sizeof(struct text) * N_TEXTS);
	return have;
}

// The name with this content, made if there is none; NULL when it is too long or there is no room.
static struct fathom_name *find_text(const char *bytes, size_t len, uint32_t kind)
{
	struct text *table = len <= MAX_TEXT_BYTES ? get_texts() : NULL;
	if (!table)
		return NULL;
	uint32_t hash = 2166136261u ^ kind; // FNV-1a
	for (size_t i = 0; i < len; i++)
		hash = (hash ^ (uint8_t)bytes[i]) * 16777619u;
	for (uint32_t i = 0; i < N_PROBES; i++) {
		struct text *t = &table[(hash + i) & (N_TEXTS - 1)];
		uint32_t state = atomic_load_explicit(&t->state, memory_order_acquire);
		if (state == TEXT_READY && t->kind == kind && t->len == len && memcmp(t->bytes, bytes, len) == 0)
			return &t->name;
		// One that another thread is making is passed by: the same name twice does no harm.
		if (state != TEXT_FREE || !atomic_compare_exchange_strong(&t->state, &state, TEXT_BEING_MADE))
			continue;
		memcpy(t->bytes, bytes, len);
		t->kind = (uint16_t)kind;
		t->len = (uint16_t)len;
		t->name.text = t->bytes;
		atomic_store_explicit(&t->state, TEXT_READY, memory_order_release);
		return &t->name;
	}
	return NULL;
}

static fathom_zone begin_text(const char *text, size_t len)
{
	struct fathom_name *name = find_text(text, len, FM_WIRE_NAME_ZONE);
	return name && begin(name) ? name : NULL;
}

static void mark_text(const char *text, size_t len)
{
	struct fathom_name *name = find_text(text, len, FM_WIRE_NAME_MARK);
	if (name) {
		mark(name);
		return;
	}
	struct fm_trace_thread *t = fm_zone_enter(); // messages may be long, and ever new
	if (!t)
		return;
	uint32_t id = fm_trace_tell_name(FM_WIRE_NAME_MARK, text, len);
	if (id)
		fm_trace_push_now(t, FM_WIRE_MARK, id);
	fm_zone_leave(t);
}

static void plot_text(const char *text, size_t len, double value)
{
	struct fathom_name *name = find_text(text, len, FM_WIRE_NAME_COUNTER);
	if (name)
		plot(name, value);
}

extern const struct fathom_api fathom_api_v1;
__attribute__((visibility("default"))) const struct fathom_api fathom_api_v1 = {
	.version = 1,
	.bytes = sizeof(struct fathom_api),
	.is_recording = (const volatile uint32_t *)&fm_trace.is_recording,
	.begin = begin,
	.end = end,
	.mark = mark,
	.plot = plot,
	.begin_text = begin_text,
	.mark_text = mark_text,
	.plot_text = plot_text,
};

void fm_zone_api_offer(uintptr_t start, uintptr_t end_of_image, uintptr_t bias)
{
	uint64_t size = 0;
	uintptr_t slot = fm_agent_symbol(start, end_of_image, bias, SLOT_NAME, &size);
	if (slot && size == sizeof(void *) && slot % sizeof(void *) == 0)
		__atomic_store_n((const struct fathom_api **)slot, &fathom_api_v1, __ATOMIC_RELEASE);
}
