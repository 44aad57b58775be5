// SPDX-License-Identifier: Apache-2.0
#include "aggregate/trace/walk.h"

void fm_trace_walk_begin(struct fm_trace_walk *w, const struct fm_profile *profile, struct fm_trace_stack *stack,
			 struct fm_zone_batch *batch)
{
	*w = (struct fm_trace_walk){ .profile = profile, .stack = stack, .batch = batch };
	stack->last_ns = FM_MAX(stack->last_ns, batch->time_ns);
	uint64_t depth = stack->n_below + stack->n_open, n_outer = batch->depth - batch->n_listed;
	if (depth == batch->depth)
		return;
	w->has_gap = w->is_due = true;
	w->n_ends = depth > n_outer ? FM_MIN(depth - n_outer, stack->n_open) : 0;
	w->n_listed = batch->n_listed;
	w->listed = batch->listed;
	stack->n_below = n_outer > stack->n_open - w->n_ends ? n_outer - (stack->n_open - w->n_ends) : 0;
}

static fm_zone_ref next_listed(struct fm_trace_walk *w)
{
	fm_zone_ref ref = fm_cursor_varint(&w->listed);
	size_t n = fm_zone_ref_is_name(ref) ? w->profile->trace_names.n : w->profile->codes.n;
	w->n_listed--;
	return ref >> 33 == 0 && fm_zone_ref_id(ref) < n ? ref : 0;
}

void fm_trace_walk_due(struct fm_trace_walk *w, struct fm_trace_step *ret)
{
	*ret = (struct fm_trace_step){ .ns = w->stack->last_ns };
	if (w->has_gap) {
		w->has_gap = false;
		ret->kind = FM_TRACE_GAP;
	} else if (w->n_ends) {
		w->n_ends--;
		w->stack->n_open--;
		ret->kind = FM_TRACE_END;
	} else if (w->n_listed) {
		w->stack->n_open++;
		ret->kind = FM_TRACE_BEGIN;
		ret->is_older = true;
		ret->ref = next_listed(w);
	} else {
		w->is_ending = false;
		ret->kind = FM_TRACE_OFF;
	}
	w->is_due = w->n_ends || w->n_listed || w->is_ending;
}

bool fm_trace_walk_rare(struct fm_trace_walk *w, const struct fm_zone_event *ev, struct fm_trace_step *ret)
{
	struct fm_trace_stack *stack = w->stack;
	ret->id = ev->ref;
	ret->value = ev->value;
	switch (ev->op) {
	case FM_ZONE_LEAVE: // with nothing open
		stack->n_below -= stack->n_below > 0;
		return false;
	case FM_ZONE_MARK:
		ret->kind = FM_TRACE_MARK;
		return true;
	case FM_ZONE_COUNTER:
		ret->kind = FM_TRACE_COUNTER;
		return true;
	case FM_ZONE_NOTE:
		ret->kind = ev->ref == FM_ZONE_ON ? FM_TRACE_ON : FM_TRACE_LOST;
		if (ev->ref == FM_ZONE_OFF) {
			w->n_ends = stack->n_open;
			w->is_ending = true;
			stack->n_below = 0;
			fm_trace_walk_due(w, ret);
		}
		return true;
	default:
		return false;
	}
}
