// SPDX-License-Identifier: Apache-2.0
// The events of a trace, one step at a time over what is open on their thread: for everybody who
// follows a trace.
//
// Times of one thread never go back, and nothing ends that did not begin. Parts of the file may be
// missing: what a batch says is open at its start is what counts then. What is not open any more
// ends there, and what was not known to be open begins there, as no call.
#pragma once

#include "read/reader.h"

// Of one thread. Zeroed before its first batch; last_ns may be raised at any time.
struct fm_trace_stack {
	uint64_t n_open;  // that began in a step and have not ended
	uint64_t n_below; // open further out, and nobody knows what they are
	uint64_t last_ns; // of the last step
};

enum fm_trace_step_kind {
	FM_TRACE_GAP,     // events are missing before this batch
	FM_TRACE_BEGIN,   // ref, is_call
	FM_TRACE_END,     // the innermost one
	FM_TRACE_LINE,    // id: the line that the innermost one has come to
	FM_TRACE_MARK,    // id: a trace name of the profile; FM_NO_ID = not known
	FM_TRACE_COUNTER, // id as that of a mark; value
	FM_TRACE_ON,      // tracing began
	FM_TRACE_OFF,     // and stopped: everything has ended
	FM_TRACE_LOST,    // value: so many events
};

struct fm_trace_step {
	uint8_t kind;    // enum fm_trace_step_kind
	bool is_call;    // not a generator that goes on, nor what was found open, nor what is not known
	bool is_older;   // it was found open
	uint32_t id;
	uint64_t ns;
	fm_zone_ref ref; // 0 = not known
	double value;
};

// A mark, for who keeps them.
struct fm_trace_mark {
	uint32_t thread_id, name; // of the profile's trace names; FM_NO_ID = not known
	uint64_t time_ns;
};

struct fm_trace_walk {
	const struct fm_profile *profile;
	struct fm_trace_stack *stack;
	struct fm_zone_batch *batch;
	bool has_gap, is_ending;
	uint64_t n_ends;         // to come first
	uint32_t n_listed;       // then so many beginnings
	struct fm_cursor listed;
};

// The batches of one thread come in order.
void fm_trace_walk_begin(struct fm_trace_walk *w, const struct fm_profile *profile, struct fm_trace_stack *stack,
			 struct fm_zone_batch *batch);
bool fm_trace_walk_next(struct fm_trace_walk *w, struct fm_trace_step *ret); // false after the last
