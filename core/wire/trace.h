// SPDX-License-Identifier: Apache-2.0
// The rings of traces: every call with its time, as 16-byte events. Plain structs and constants, as
// in wire.h.
//
// They lie behind everything else in the shared memory, one per slot, and are mapped ring by ring
// by the threads that write them: address space is not spent on threads that are not traced.
// Definitions (code objects, names) go through the slot's ordinary ring, and before the first event
// that uses them.
#pragma once

#include "wire/wire.h"

// 4 MiB: it stays in the caches of both sides, and its pages are soon paid for (2 us each on a
// virtual machine). Bare recursion, 20 million events a second, fills it in 13 ms; a full ring
// makes its writer wait (agent/trace.c).
#define FM_WIRE_TRACE_EVENTS (1u << 18)
#define FM_WIRE_TRACE_SLOT_BYTES (FM_WIRE_CONTROL_BYTES + (uint64_t)FM_WIRE_TRACE_EVENTS * 16u)
#define FM_WIRE_TRACE_OFFSET FM_WIRE_EXACT_END
#define FM_WIRE_TRACE_END (FM_WIRE_TRACE_OFFSET + FM_WIRE_N_SLOTS * FM_WIRE_TRACE_SLOT_BYTES)

enum fm_wire_trace_clock {
	FM_WIRE_CLOCK_CYCLES = 1,    // fm_cycles(); the collector converts
	FM_WIRE_CLOCK_MONOTONIC = 2, // nanoseconds: the cycle counter of this machine cannot be trusted
};

enum fm_wire_event_kind {
	FM_WIRE_ENTER = 1,   // id: code. A function begins
	FM_WIRE_RESUME = 2,  // id: code. A generator or coroutine goes on
	FM_WIRE_LEAVE = 3,   // id: code. It returns, yields or raises
	FM_WIRE_BEGIN = 4,   // id: name. A zone, or a call of a function that is not Python's
	FM_WIRE_END = 5,     // id: name
	FM_WIRE_LINE = 6,    // id: line number in the innermost function
	FM_WIRE_MARK = 7,    // id: name
	FM_WIRE_COUNTER = 8, // id: name. The next event is its value
	FM_WIRE_VALUE = 9,   // stamp: the bits of a double
	FM_WIRE_TRACE_ON = 10,
	FM_WIRE_TRACE_OFF = 11, // ends what is open on every thread of the process
	FM_WIRE_LOST = 12,      // stamp: when; id: so many events did not fit
};

struct fm_wire_event {
	uint64_t stamp;
	uint32_t id;
	uint32_t kind; // enum fm_wire_event_kind
};
static_assert(sizeof(struct fm_wire_event) == 16, "events are many");

// A trace ring's control block; FM_WIRE_TRACE_EVENTS events follow at FM_WIRE_CONTROL_BYTES.
struct fm_wire_trace {
	_Alignas(64) _Atomic uint64_t head; // events written; the owner's (release), read by the collector (acquire)
	_Atomic uint64_t n_lost;            // events that did not fit
	_Atomic uint64_t n_unseen;          // times the hook was taken off for want of C stack
	_Alignas(64) _Atomic uint64_t tail; // events read; the collector's (release), read by the owner (acquire)
};

static inline struct fm_wire_event *fm_wire_trace_event(struct fm_wire_trace *control, uint64_t number)
{
	return (struct fm_wire_event *)((uint8_t *)control + FM_WIRE_CONTROL_BYTES) +
	       (number & (FM_WIRE_TRACE_EVENTS - 1));
}

enum fm_wire_name_kind {
	FM_WIRE_NAME_FUNCTION = 1, // a callable that is not Python code
	FM_WIRE_NAME_ZONE = 2,
	FM_WIRE_NAME_MARK = 3,
	FM_WIRE_NAME_COUNTER = 4,
};

struct fm_wire_trace_name {
	struct fm_wire_record rec;
	uint32_t id; // 1, 2, ... in this process
	uint32_t kind;
	uint32_t name_len;
	uint32_t file_len; // 0 = not known
	uint32_t line;     // of the file, where a zone begins
	uint32_t reserved;
	uint8_t bytes[]; // name, file
};
