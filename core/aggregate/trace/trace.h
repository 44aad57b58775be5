// SPDX-License-Identifier: Apache-2.0
// What a trace says, added up: per function, per pair of caller and callee, per line and per
// thread. One pass, in memory that grows with distinct functions and depth, not with calls.
//
//   own time      of a function: while it was the innermost one
//   total time    while it was on the stack, once however often it stood there (recursion counts once)
//   a call        a function beginning; a generator that goes on is no new call, but its time counts
//   a span        from one entry to the next leave: a call, or one stretch of a generator
//
// Own times of all functions and the time outside of all functions add up to the time of the traced
// regions, per thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "aggregate/trace/durations.h"
#include "aggregate/trace/walk.h"
#include "base/hash.h"
#include "base/mem.h"
#include "read/observe.h"

enum fm_trace_kind {
	FM_TRACE_PYTHON = 0,
	FM_TRACE_NATIVE = 1, // a callable that is not Python code
	FM_TRACE_ZONE = 2,
	FM_TRACE_UNKNOWN = 3, // events were lost here
};
extern const char *const fm_trace_kind_names[]; // for machines

struct fm_traced_function {
	uint8_t kind;             // enum fm_trace_kind
	struct fm_str name;       // qualified, as far as the code object or its source tells
	struct fm_str plain_name; // never qualified
	struct fm_str file;       // "" unless Python, or a zone of C code
	uint32_t line;            // where it begins
	uint64_t n_calls;
	uint64_t n_recursive; // of the calls: while it was on the stack already
	uint64_t own_ns, total_ns;
	struct fm_durations spans;
	uint32_t last_caller, last_edge; // while adding up
};

struct fm_trace_edge {
	uint32_t caller, callee; // functions; caller FM_NO_ID = none
	uint64_t n_calls, n_recursive;
	uint64_t own_ns, total_ns; // of the callee, when called by the caller
};

struct fm_trace_line {
	uint32_t function, line;
	uint64_t n_hits;
	uint64_t own_ns, total_ns; // without and with what it called; a recursive one is counted once per stack
};

struct fm_trace_span; // one entry of a stack

struct fm_traced_thread {
	uint64_t n_calls, n_events, n_lost;
	uint64_t region_ns;  // the time that was traced
	uint64_t outside_ns; // of it, in no traced function
	// While adding up:
	FM_VEC(struct fm_trace_span) stack;
	FM_VEC(uint32_t) active, active_edges, active_lines; // by function, edge and line: how often it is on the stack
	bool is_in_region;
	uint64_t begin_ns;
	struct fm_trace_stack walked;
};

struct fm_trace_stats {
	const struct fm_profile *profile; // lends the strings
	FM_VEC(struct fm_traced_function) functions;
	FM_VEC(struct fm_trace_edge) edges;
	FM_VEC(struct fm_trace_line) lines;
	FM_VEC(struct fm_traced_thread) threads; // by thread id
	FM_VEC(struct fm_trace_mark) marks;
	uint64_t n_events, n_calls, n_lost;
	uint64_t n_sums;                // that came as sums: how long each call took is not known of these
	uint64_t summed_ns;             // own time in these
	struct fm_str unit;             // what all times count, where that is not nanoseconds: "Ir"; else ""
	struct fm_qualnames *qualnames; // lends names
	// While adding up:
	FM_VEC(uint32_t) of_code, of_name; // function + 1
	struct fm_intern keys;             // what makes two code objects one function
	struct fm_map edge_index, line_index;
};

// Begun with the profile that is still being read, or has been; told of every event; finished
// before it is looked at.
struct fm_trace_stats *fm_trace_stats_create(const struct fm_profile *profile);
struct fm_observer fm_trace_stats_observer(struct fm_trace_stats *s);
void fm_trace_stats_finish(struct fm_trace_stats *s);
void fm_trace_stats_destroy(struct fm_trace_stats *s); // NULL is fine

// Functions (or edges of one function) in the order of their own or total time, largest first. The
// caller frees it.
enum fm_trace_order { FM_TRACE_BY_OWN, FM_TRACE_BY_TOTAL, FM_TRACE_BY_CALLS };
uint32_t *fm_trace_sorted(const struct fm_trace_stats *s, enum fm_trace_order order);

// Who called the function, or whom it called, largest total first; *ret_n of them. The caller frees
// the list.
const struct fm_trace_edge **fm_trace_edges_of(const struct fm_trace_stats *s, uint32_t function, bool is_callers,
					       size_t *ret_n);
