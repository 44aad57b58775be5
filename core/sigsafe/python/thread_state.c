// SPDX-License-Identifier: Apache-2.0
#include "sigsafe/python/thread_state.h"

#include "sigsafe/base/sigsafe.h"

// Of lists that another thread may be changing: longer ones are taken for damaged.
#define MAX_INTERPRETERS 1024u
#define MAX_STATES 65536u
// A thread that Python does not know is looked for again after this time. One that Python comes to
// know is attached at once, and seen then.
#define UNKNOWN_FOR_NS 10000000u

static FM_SIGSAFE bool belongs_to(uintptr_t ts, uint64_t thread)
{
	uint64_t owner;
	return fm_sig_read_u64(ts + fm_sig.python.row.ts_thread_id, &owner) && owner == thread;
}

FM_SIGSAFE uintptr_t fm_sig_thread_state_listed(uint64_t thread)
{
	const struct fm_py_row *row = &fm_sig.python.row;
	uint64_t interp, ts;
	if (!row->interp_threads || !fm_sig_read_u64(fm_sig.python.runtime + row->runtime_interpreters, &interp))
		return 0;
	for (uint32_t n = 0; interp && n < MAX_INTERPRETERS; n++) {
		if (!fm_sig_read_u64(interp + row->interp_threads, &ts))
			return 0;
		for (uint32_t k = 0; ts && k < MAX_STATES; k++) {
			if (belongs_to(ts, thread))
				return ts;
			if (!fm_sig_read_u64(ts + row->ts_next, &ts))
				return 0;
		}
		if (!fm_sig_read_u64(interp + row->interp_next, &interp))
			return 0;
	}
	return 0;
}

// True when the list that ts was in still has it: its neighbours name it. A state that was freed
// may still look like one.
static FM_SIGSAFE bool is_listed(uintptr_t ts, uint64_t thread)
{
	const struct fm_py_row *row = &fm_sig.python.row;
	// `prev` stands in front of `next` in every version.
	uint64_t interp, named, next, prev;
	if (!ts || !belongs_to(ts, thread) || !fm_sig_read_u64(ts + row->ts_interp, &interp) ||
	    !fm_sig_read_u64(ts + row->ts_next, &next) || !fm_sig_read_u64(ts + row->ts_next - 8, &prev))
		return false;
	return fm_sig_read_u64(prev ? prev + row->ts_next : interp + row->interp_threads, &named) && named == ts &&
	       (!next || (fm_sig_read_u64(next + row->ts_next - 8, &named) && named == ts));
}

FM_SIGSAFE uintptr_t fm_sig_thread_state(struct fm_sig_thread *t, bool *ret_is_attached)
{
	uint64_t us = (uint64_t)pthread_self();
	uintptr_t ts = fm_sig_current_state();
	*ret_is_attached = ts && belongs_to(ts, us);
	if (FM_LIKELY(*ret_is_attached)) {
		t->thread_state = ts;
		return ts;
	}
	if (is_listed(t->thread_state, us))
		return t->thread_state;
	t->thread_state = 0;
	if (t->now_ns < t->python_unknown_until_ns)
		return 0;
	t->thread_state = fm_sig_thread_state_listed(us);
	if (!t->thread_state)
		t->python_unknown_until_ns = t->now_ns + UNKNOWN_FOR_NS;
	return t->thread_state;
}
