// SPDX-License-Identifier: Apache-2.0
// Which interpreters there are, and which of several states is the thread's now, where there is more
// than one.
//
// A thread has a state in each interpreter that it has been in. And up to 3.12 whoever runs code in
// an interpreter takes the state that its maker left there, with the maker's thread id: by ids
// alone the maker would be shown in what others do. But the evaluator's records lie on the stack of
// the thread that runs it: of all states the one is right whose innermost record is the nearest
// above the stack pointer.
#include "collect/remote/parts.h"

#define NOWHERE UINT64_MAX
#define MAX_STEPS 65536u // from a frame to the shim that its run began with

// An address in the innermost call of the evaluator; 0 = none.
static uint64_t marker_of(struct fm_remote *r, uint64_t state)
{
	const struct fm_py_row *row = &r->python.row;
	uint64_t at = 0;
	uint8_t owner;
	if (row->frames != FM_PY_FRAMES_SHIM) {
		bool is_outermost =
			!fm_remote_u64(r->memory, state + row->ts_cframe, &at) || at - state < FM_PY_THREAD_STATE_BYTES;
		return is_outermost ? 0 : at;
	}
	if (!fm_remote_u64(r->memory, state + row->ts_current_frame, &at))
		return 0;
	for (uint32_t n = 0; at && n < MAX_STEPS; n++) {
		if (!fm_remote_u8(r->memory, at + row->frame_owner, &owner))
			return 0;
		if (owner >= row->first_shim_owner)
			return at;
		if (!fm_remote_u64(r->memory, at + row->frame_previous, &at))
			return 0;
	}
	return 0;
}

static uint64_t distance_of(struct fm_remote *r, uint64_t state, uint64_t sp)
{
	uint64_t marker = marker_of(r, state);
	return marker > sp ? marker - sp : NOWHERE;
}

struct nearest {
	uint64_t state, distance;
};

// tid 0: whoever's they are.
static void search(struct fm_remote *r, uint32_t tid, uint64_t sp, struct nearest *nearest)
{
	const struct fm_py_row *row = &r->python.row;
	uint64_t interp = 0, state, id;
	fm_remote_u64(r->memory, r->python.runtime + row->runtime_interpreters, &interp);
	for (uint32_t n = 0; interp && n < r->max_chain; n++) {
		bool is_good = fm_remote_u64(r->memory, interp + row->interp_threads, &state);
		for (; is_good && state && n < r->max_chain; n++) {
			bool is_asked = !tid || (fm_remote_u64(r->memory, state + row->ts_native_id, &id) && id == tid);
			uint64_t distance = is_asked ? distance_of(r, state, sp) : NOWHERE;
			if (distance < nearest->distance)
				*nearest = (struct nearest){ state, distance };
			is_good = fm_remote_u64(r->memory, state + row->ts_next, &state);
		}
		if (!fm_remote_u64(r->memory, interp + row->interp_next, &interp))
			break;
	}
}

uint64_t fm_remote_state_on_stack(struct fm_remote *r, uint32_t tid, uint64_t own, uint64_t sp)
{
	const struct fm_py_row *row = &r->python.row;
	uint64_t interp = 0, next = 0;
	if (!own || !row->ts_native_id || row->frames < FM_PY_FRAMES_ENTRY_FLAG ||
	    !fm_remote_u64(r->memory, r->python.runtime + row->runtime_interpreters, &interp) ||
	    !fm_remote_u64(r->memory, interp + row->interp_next, &next) || !next)
		return own; // one interpreter
	struct nearest nearest = { own, distance_of(r, own, sp) };
	search(r, tid, sp, &nearest);
	if (nearest.distance != NOWHERE) // a thread without frames has nothing to compare others' with
		search(r, 0, sp, &nearest);
	return nearest.state;
}

uint64_t fm_remote_main_interpreter(struct fm_remote *r)
{
	const struct fm_py_row *row = &r->python.row;
	uint64_t interp = 0, next = 0;
	if (!fm_remote_u64(r->memory, r->python.runtime + row->runtime_interpreters, &next))
		return 0;
	for (uint32_t n = 0; next && n < r->max_chain; n++) {
		interp = next;
		if (!fm_remote_u64(r->memory, interp + row->interp_next, &next))
			return 0;
	}
	return interp;
}

bool fm_remote_each_state(struct fm_remote *r, fm_remote_state_fn each, void *ctx)
{
	const struct fm_py_row *row = &r->python.row;
	uint64_t interp = fm_remote_main_interpreter(r), state = 0;
	if (!interp || !fm_remote_u64(r->memory, interp + row->interp_threads, &state))
		return false;
	for (uint32_t n = 0; state && n < r->max_chain; n++)
		if (!each(ctx, state) || !fm_remote_u64(r->memory, state + row->ts_next, &state))
			return false;
	return !state;
}

struct wanted {
	uint64_t state;
	bool is_there;
};

static bool is_another(void *ctx, uint64_t state)
{
	struct wanted *wanted = ctx;
	wanted->is_there |= state == wanted->state;
	return !wanted->is_there;
}

bool fm_remote_has_state(struct fm_remote *r, uint64_t state)
{
	struct wanted wanted = { state, false };
	(void)fm_remote_each_state(r, is_another, &wanted);
	return wanted.is_there;
}
