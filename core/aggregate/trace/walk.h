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
	uint8_t kind;  // enum fm_trace_step_kind
	bool is_call;  // not a generator that goes on, nor what was found open, nor what is not known
	bool is_older; // it was found open
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
	bool is_due;       // steps come before the next event, in this order:
	bool has_gap;      //   a gap
	uint64_t n_ends;   //   ends
	uint32_t n_listed; //   beginnings of what is listed
	bool is_ending;    //   the end of tracing
	struct fm_cursor listed;
};

// The batches of one thread come in order.
void fm_trace_walk_begin(struct fm_trace_walk *w, const struct fm_profile *profile, struct fm_trace_stack *stack,
			 struct fm_zone_batch *batch);
void fm_trace_walk_due(struct fm_trace_walk *w, struct fm_trace_step *ret);
bool fm_trace_walk_rare(struct fm_trace_walk *w, const struct fm_zone_event *ev, struct fm_trace_step *ret);

// False after the last step. Fields that a kind does not name mean nothing.
static inline bool fm_trace_walk_next(struct fm_trace_walk *w, struct fm_trace_step *ret)
{
	struct fm_trace_stack *stack = w->stack;
	struct fm_zone_event ev;
	if (FM_UNLIKELY(w->is_due)) {
		fm_trace_walk_due(w, ret);
		return true;
	}
	while (fm_trace_next(w->profile, w->batch, &ev) == FM_OK) {
		ret->ns = stack->last_ns = FM_MAX(stack->last_ns, ev.time_ns);
		if (ev.op <= FM_ZONE_RESUME || ev.op == FM_ZONE_BEGIN) {
			stack->n_open++;
			ret->kind = FM_TRACE_BEGIN;
			ret->ref = ev.ref == FM_NO_ID ? 0 : fm_zone_ref_of(ev.op, ev.ref);
			ret->is_call = ret->ref && ev.op != FM_ZONE_RESUME;
			ret->is_older = false;
			return true;
		}
		if (ev.op == FM_ZONE_LEAVE && FM_LIKELY(stack->n_open)) {
			stack->n_open--;
			ret->kind = FM_TRACE_END;
			return true;
		}
		if (ev.op == FM_ZONE_LINE) {
			ret->kind = FM_TRACE_LINE;
			ret->id = ev.ref;
			return true;
		}
		if (fm_trace_walk_rare(w, &ev, ret))
			return true;
	}
	return false;
}
