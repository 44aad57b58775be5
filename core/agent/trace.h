// SPDX-License-Identifier: Apache-2.0
// Traces: what the hooks share. Each thread writes 16-byte events to a ring of its own
// (wire/trace.h).
//
// The hooks run as part of the program, never at signal time: attached to the interpreter, between
// two steps of their thread. They allocate nothing and take no lock. A full ring makes its writer
// wait for the collector while that is there (half a minute at most); after that events are dropped
// and counted until half of the ring is free again.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "sigsafe/base/state.h"
#include "wire/trace.h"

// Code objects a thread has met, by address. Direct-mapped: two that share a place take turns, and
// are found again in the process's own table at some 30 ns.
#define FM_TRACE_CODES 4096 // power of two
#define FM_TRACE_FUNCTIONS 1024

struct fm_trace_code {
	uintptr_t code;
	uintptr_t name, lines; // its parts: an address that is used again for another function has others
	uint32_t id;           // 0: not to be traced
	bool is_plain;         // to be traced, and no generator
	bool is_generator;
	bool has_lines; // its lines are wanted
};

struct fm_trace_function {
	uintptr_t key;
	uint32_t id;
};

// One thread's side of its ring. Private memory, zeros in a forked child.
struct fm_trace_thread {
	struct fm_wire_trace
		*control;      // the events follow it; NULL: nothing to write to. How many were written it knows itself
	uintptr_t lap;         // where event 0 would be, had the ring not begun anew since: event n is n further on,
	uint64_t limit;        // up to this one. That is as far as there is room, and not past the ring's end
	uintptr_t stack_floor; // below this the C stack is nearly used up
	uint64_t n_backed;     // events whose memory is there
	uint64_t n_lost;       // since the last one that fitted
	int32_t lost_depth;    // how the stack of zones changed meanwhile: up or down since then,
	int32_t lost_lowest;   // and how far down it went in between
	_Atomic uint32_t is_writing; // the owner's (zone_api.c); read by who ends a capture
	uint32_t armed;              // generation for which this thread has its profile function
	uint32_t n_starts;           // as of the last trace that it told of
	bool has_lines;              // up to 3.11: the function that runs now is traced by line
	bool is_setting;             // its functions are being set, about which audit hooks of the program may run
	bool is_refused;             // one of these did not let us
	struct fm_trace_code codes[FM_TRACE_CODES];
	struct fm_trace_function functions[FM_TRACE_FUNCTIONS];
};

enum fm_trace_flags {
	FM_TRACE_C_CALLS = 1,
	FM_TRACE_LINES = 2,
	FM_TRACE_SLOW_CLOCK = 256, // ours: there is no cycle counter to trust
};

// Which of our hooks records calls. Another tool's may have one of ours called that is not wanted,
// or for the second time.
enum fm_trace_door { FM_TRACE_BY_MONITORING, FM_TRACE_BY_HOOK, FM_TRACE_BY_CHAINED_HOOK };

// No generation of a trace: calls are not recorded.
#define FM_TRACE_NO_CALLS UINT32_MAX

struct fm_trace_state {
	_Atomic uint32_t is_recording; // there are rings: zones, marks and counters are written
	_Atomic uint32_t is_on;        // calls are, too
	_Atomic uint32_t is_left;      // they were, but nobody reads any more: the hooks are to be taken away
	// Grows with every start, stop and fork: what was open before is not ours to close, and a
	// thread looks anew where its ring is.
	_Atomic uint32_t generation;
	_Atomic uint32_t calls_generation; // the same while calls are recorded, else FM_TRACE_NO_CALLS
	_Atomic uint32_t plain_generation; // the same while nothing but calls is, by the cycle counter
	_Atomic uint32_t hook_generation;  // the same while that is by FM_TRACE_BY_HOOK
	uint32_t door;                     // enum fm_trace_door
	uint32_t n_starts;  // of traces; each thread tells with its first event that another one has begun
	uint32_t flags;     // enum fm_trace_flags
	bool has_cycles;    // stamps are fm_cycles()
	bool is_filter_new; // since the last start: other functions or lines may be wanted
	_Atomic uint32_t next_name_id;
};
// Hidden, said here: a hook then reaches it in one instruction and needs no register for where it
// is.
extern FM_HIDDEN struct fm_trace_state fm_trace;

// The calling thread's ring, good for one generation: one comparison tells a hook that it may
// write. initial-exec: no call.
struct fm_trace_own {
	struct fm_trace_thread *thread;
	uint32_t generation;
};
extern __thread struct fm_trace_own fm_trace_own __attribute__((tls_model("initial-exec")));

// Begins a generation: from now on calls are recorded, or not.
void fm_trace_renew(bool is_on);
// Called when the process has joined a capture (also after a fork), and before it joins another
// one.
void fm_trace_join(void);
void fm_trace_forget(void);
// Nothing is recorded from here on.
void fm_trace_end(void);
// True while a thread is about to write without the GIL (zone_api.c).
bool fm_trace_is_writing(void);
// Asks anew which functions are wanted. No trace runs.
void fm_trace_forget_codes(void);

// The calling thread's ring, made at its first event; NULL when there is none to be had. errno
// stays.
struct fm_trace_thread *fm_trace_open(void);
// True when there is room for an event of that kind now; else it is lost, and counted.
bool fm_trace_make_room(struct fm_trace_thread *t, uint32_t kind);
// Tells of a code object. The entry is filled; id 0 when it is not to be traced or could not be
// told.
void fm_trace_meet_code(struct fm_trace_thread *t, struct fm_trace_code *entry, uintptr_t code);
// The id of a new name, told to the collector; 0 when that was not possible. A zone of C code says
// where it begins; file is NULL for all else.
uint32_t fm_trace_tell_name(uint32_t kind, const char *name, size_t len);
uint32_t fm_trace_tell_place(uint32_t kind, const char *name, size_t len, const char *file, uint32_t line);

static inline struct fm_trace_thread *fm_trace_self(void)
{
	uint32_t generation = atomic_load_explicit(&fm_trace.generation, memory_order_relaxed);
	return FM_LIKELY(fm_trace_own.generation == generation) ? fm_trace_own.thread : fm_trace_open();
}

// The same for calls: NULL also while they are not recorded. What a call began in one generation it
// must not end in another.
static inline struct fm_trace_thread *fm_trace_self_for_calls(uint32_t *ret_generation)
{
	*ret_generation = atomic_load_explicit(&fm_trace.calls_generation, memory_order_relaxed);
	if (FM_LIKELY(fm_trace_own.generation == *ret_generation))
		return fm_trace_own.thread;
	return *ret_generation == FM_TRACE_NO_CALLS ? NULL : fm_trace_open();
}

static inline uint64_t fm_trace_stamp(void)
{
	return FM_LIKELY(fm_trace.has_cycles) ? fm_cycles() : fm_now_ns();
}

// The line that will be written soon, which the collector had last. Without this each new line
// costs 5 ns of waiting for it.
static inline void fm_trace_fetch_line(const struct fm_wire_event *e)
{
#if defined(__x86_64__)
	__asm__ volatile("prefetchw %0"
			 :
			 : "m"(*e)); // what the compiler makes of __builtin_prefetch(e, 1) does not claim it
#else
	__builtin_prefetch(e, 1);
#endif
}

// How many events this thread has written. It alone counts them.
static FM_ALWAYS_INLINE uint64_t fm_trace_head(const struct fm_trace_thread *t)
{
	return atomic_load_explicit(&t->control->head, memory_order_relaxed);
}

// Where the next event goes, when there is room for it. Not in a child that was forked past the C
// library: what was its parent's is zeros there.
static FM_ALWAYS_INLINE bool fm_trace_has_room(const struct fm_trace_thread *t, uint64_t *ret_head)
{
	if (FM_UNLIKELY(!t->control))
		return false;
	*ret_head = fm_trace_head(t);
	return FM_LIKELY(*ret_head < t->limit);
}

// At a place that fm_trace_has_room() gave.
static FM_ALWAYS_INLINE void fm_trace_write(struct fm_trace_thread *t, uint64_t head, uint64_t stamp, uint32_t kind,
					    uint32_t id)
{
	struct fm_wire_event *e = (struct fm_wire_event *)(t->lap + head * sizeof(*e));
	if (kind != FM_WIRE_LEAVE && kind != FM_WIRE_END) // four events are a line, and what ends has begun
		fm_trace_fetch_line(e + 16);
	e->stamp = stamp;
	e->id = id;
	e->kind = kind;
	// Publishes the event: its bytes must be visible before head moves. Pairs with the acquire
	// load in the collector.
	atomic_store_explicit(&t->control->head, head + 1, memory_order_release);
}

static inline void fm_trace_push(struct fm_trace_thread *t, uint64_t stamp, uint32_t kind, uint32_t id)
{
	uint64_t head;
	if (!fm_trace_has_room(t, &head)) {
		if (!fm_trace_make_room(t, kind))
			return;
		head = fm_trace_head(t); // not by its address, which would keep it out of registers
	}
	fm_trace_write(t, head, stamp, kind, id);
}

static inline void fm_trace_push_now(struct fm_trace_thread *t, uint32_t kind, uint32_t id)
{
	fm_trace_push(t, fm_trace_stamp(), kind, id);
}

static FM_ALWAYS_INLINE struct fm_trace_code *fm_trace_code_place(struct fm_trace_thread *t, uintptr_t code)
{
	// Objects begin at multiples of 16: their addresses, that far masked, are already half of
	// what an entry's place is from the first.
	static_assert(sizeof(struct fm_trace_code) == 2 * 16, "the two below");
	uintptr_t half_offset = (code ^ code >> 12) & (FM_TRACE_CODES - 1) * 16;
	return (struct fm_trace_code *)((uint8_t *)t->codes + half_offset * 2);
}

// Where a code object has its name and its line table.
struct fm_trace_code_layout {
	uint16_t name, lines;
};

static FM_ALWAYS_INLINE bool fm_trace_code_is_met(const struct fm_trace_code *entry, uintptr_t code,
						  struct fm_trace_code_layout at)
{
	return FM_LIKELY(entry->code == code) && FM_LIKELY(entry->name == *(const uintptr_t *)(code + at.name)) &&
	       FM_LIKELY(entry->lines == *(const uintptr_t *)(code + at.lines));
}

// As it is in this Python.
static FM_ALWAYS_INLINE struct fm_trace_code_layout fm_trace_code_layout(void)
{
	return (struct fm_trace_code_layout){ fm_sig.python.row.code_name, fm_sig.python.row.code_line_table };
}

// What is known of a code object that runs now, and is therefore alive.
static inline const struct fm_trace_code *fm_trace_code(struct fm_trace_thread *t, uintptr_t code)
{
	struct fm_trace_code *entry = fm_trace_code_place(t, code);
	if (FM_UNLIKELY(!fm_trace_code_is_met(entry, code, fm_trace_code_layout())))
		fm_trace_meet_code(t, entry, code);
	return entry;
}

// ---- the hooks: each says with a text why it could not be set, NULL = it is ----

// trace_eval.c: by the frame-evaluation hook of PEP 523. Up to 3.11 always; on 3.12 and 3.14 calls
// alone, unless the program recurses deeply.
bool fm_trace_eval_is_for(uint32_t flags);
const char *fm_trace_eval_start(void);
void fm_trace_eval_stop(void);
// trace_monitor.c: from 3.12 on, by sys.monitoring, where the hook is not for it.
const char *fm_trace_monitor_start(void);
void fm_trace_monitor_stop(void);
// The interpreter has ended, and all of its objects with it.
void fm_trace_monitor_forget(void);
// trace_profile.c: C calls and lines up to 3.11, thread by thread. Arms the calling thread, also
// where the program has set a function of its own meanwhile.
void fm_trace_profile_arm(struct fm_trace_thread *t);
// From here on the calling thread's lines are traced, or not. Returns what was before.
bool fm_trace_profile_set_lines(struct fm_trace_thread *t, bool has_lines);
struct py_object;
// trace_function.c: the id of a callable that is not Python code; 0 = not known.
uint32_t fm_trace_function(struct fm_trace_thread *t, struct py_object *callable);
