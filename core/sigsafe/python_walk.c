// Walking the frames. CPython's evaluator keeps something of each of its calls on the C stack (a cframe up to 3.12, a shim
// frame from 3.12 on); the address of that thing is the run's marker, by which merge.c finds the C frame that owns the run.
#include "sigsafe/python.h"

#include <pthread.h>

#include "format/model.h"
#include "sigsafe/raw.h"

#include "sigsafe/sigsafe.h"

// Thread states are smaller; a cframe inside one is the root that every chain ends with.
#define THREAD_STATE_BYTES 2048

struct walk {
	struct fm_sig_thread *t;
	const struct fm_py_row *row;
	uintptr_t ts;
};

static FM_SIGSAFE void end_run(struct fm_sig_thread *t, uintptr_t marker)
{
	if (t->n_runs == FM_SIG_MAX_RUNS) {
		t->runs[t->n_runs - 1].end = t->n_python;
		return;
	}
	t->runs[t->n_runs].marker = marker;
	t->runs[t->n_runs].end = t->n_python;
	t->n_runs++;
}

// Appends one frame. False: not a frame we can believe in; nothing appended.
static FM_SIGSAFE bool push_frame(struct walk *w, uintptr_t frame)
{
	struct fm_sig_thread *t = w->t;
	const struct fm_py_row *row = w->row;
	uint64_t code, lasti = 0;
	if (t->n_python == FM_SIG_MAX_FRAMES)
		return false;
	if (!fm_sig_read_u64(t, frame + row->frame_code, &code))
		return false;
	code &= ~(uint64_t)row->executable_tag_mask;
	uint32_t id = fm_sig_code_id(t, code);
	if (id == 0)
		return false;
	if (id == FM_SIG_NOT_A_FUNCTION)
		return true;
	uint64_t off = 0; // instruction offset + 1
	if (row->lasti == FM_PY_LASTI_POINTER) {
		uint64_t bytecode = code + row->code_bytecode;
		uint32_t tlbc_idx;
		if (row->frame_tlbc_index && fm_sig_read_u32(t, frame + row->frame_tlbc_index, &tlbc_idx) && tlbc_idx) {
			// Free-threaded 3.14+: each thread may run its own copy of the bytecode.
			uint64_t array, copy;
			if (fm_sig_read_u64(t, code + row->code_tlbc, &array) &&
			    fm_sig_read_u64(t, array + 8 + (uint64_t)tlbc_idx * 8, &copy))
				bytecode = copy;
		}
		if (!fm_sig_read_u64(t, frame + row->frame_lasti, &lasti))
			return false;
		if (lasti >= bytecode && lasti - bytecode < INT32_MAX)
			off = lasti - bytecode + 1;
	} else {
		uint32_t n;
		if (!fm_sig_read_u32(t, frame + row->frame_lasti, &n))
			return false;
		if ((int32_t)n >= 0)
			off = (uint64_t)n * (row->lasti == FM_PY_LASTI_UNITS ? 2 : 1) + 1;
	}
	t->python[t->n_python++] = FM_WIRE_FRAME_PYTHON << FM_WIRE_FRAME_SHIFT | (uint64_t)id << 32 | off;
	return true;
}

static FM_SIGSAFE void torn(struct fm_sig_thread *t)
{
	t->python_error = t->n_python == FM_SIG_MAX_FRAMES ? FM_STACK_TOO_DEEP : FM_STACK_PYTHON_TORN;
}

// 3.8 to 3.10: frame objects, one evaluator call each. Runs get their markers from the cframe chain (3.10); on 3.8 and
// 3.9 merge.c finds the evaluator's C frames itself.
static FM_SIGSAFE void walk_objects(struct walk *w)
{
	struct fm_sig_thread *t = w->t;
	const struct fm_py_row *row = w->row;
	uint64_t frame;
	if (!fm_sig_read_u64(t, w->ts + row->ts_frame, &frame))
		return;
	while (frame) {
		if (!push_frame(w, frame) || !fm_sig_read_u64(t, frame + row->frame_previous, &frame)) {
			torn(t);
			break;
		}
		end_run(t, 0);
	}
	if (row->frames != FM_PY_FRAMES_OBJECTS_CFRAME)
		return;
	// The chains are in step at the outer end; at the inner end one may be ahead while the evaluator enters or leaves.
	uint32_t n_cframes = 0;
	uint64_t cframe, first;
	if (!fm_sig_read_u64(t, w->ts + row->ts_cframe, &first))
		return;
	for (cframe = first; cframe - w->ts >= THREAD_STATE_BYTES && n_cframes < FM_SIG_MAX_RUNS; n_cframes++)
		if (!fm_sig_read_u64(t, cframe + row->cframe_previous, &cframe))
			return;
	cframe = first;
	for (uint32_t i = 0; i < n_cframes; i++) {
		int64_t run = (int64_t)i + t->n_runs - n_cframes;
		if (run >= 0)
			t->runs[run].marker = cframe;
		if (!fm_sig_read_u64(t, cframe + row->cframe_previous, &cframe))
			return;
	}
}

// 3.11 and 3.12: every evaluator call has a cframe, which knows the call's current frame.
static FM_SIGSAFE void walk_cframes(struct walk *w)
{
	struct fm_sig_thread *t = w->t;
	const struct fm_py_row *row = w->row;
	uint64_t cframe, outer_cframe, frame, outer_frame, stack_top;
	if (!fm_sig_read_u64(t, w->ts + row->ts_cframe, &cframe) ||
	    !fm_sig_read_u64(t, w->ts + row->ts_datastack_top, &stack_top))
		return;
	for (uint32_t n = 0; cframe && cframe - w->ts >= THREAD_STATE_BYTES; n++) {
		if (n == FM_SIG_MAX_RUNS || !fm_sig_read_u64(t, cframe + row->cframe_current_frame, &frame) ||
		    !fm_sig_read_u64(t, cframe + row->cframe_previous, &outer_cframe) ||
		    !fm_sig_read_u64(t, outer_cframe + row->cframe_current_frame, &outer_frame)) {
			torn(t);
			return;
		}
		bool is_innermost = n == 0;
		uint64_t first_frame = frame;
		while (frame && frame != outer_frame) { // a frame still being linked may point past its run
			uint8_t owner, is_entry = 0;
			if (!fm_sig_read_u8(t, frame + row->frame_owner, &owner)) {
				if (!is_innermost)
					torn(t);
				break;
			}
			if (row->first_shim_owner && owner >= row->first_shim_owner)
				break;
			// The evaluator links its cframe before it fills current_frame in: for some instructions there is an
			// old value. It points to a frame already popped, at or above the top of the data stack (which
			// grows upwards in chunks of 16 KiB and more).
			if (is_innermost && frame == first_frame && owner != row->generator_owner && frame >= stack_top &&
			    frame - stack_top < 16384)
				break;
			if (!push_frame(w, frame)) {
				if (!is_innermost)
					torn(t);
				break;
			}
			if (row->frame_is_entry && (!fm_sig_read_u8(t, frame + row->frame_is_entry, &is_entry) || is_entry))
				break;
			if (!fm_sig_read_u64(t, frame + row->frame_previous, &frame)) {
				torn(t);
				break;
			}
		}
		end_run(t, cframe);
		if (t->python_error)
			return;
		cframe = outer_cframe;
	}
}

// 3.13 and later: one chain, in which a shim frame on the C stack ends each evaluator call's run.
static FM_SIGSAFE void walk_shims(struct walk *w)
{
	struct fm_sig_thread *t = w->t;
	const struct fm_py_row *row = w->row;
	uint64_t frame;
	if (!fm_sig_read_u64(t, w->ts + row->ts_current_frame, &frame))
		return;
	uint32_t run_start = 0;
	for (uint32_t n = 0; frame; n++) {
		uint8_t owner;
		if (n == 2 * FM_SIG_MAX_FRAMES || !fm_sig_read_u8(t, frame + row->frame_owner, &owner)) {
			torn(t);
			break;
		}
		if (owner >= row->first_shim_owner) {
			if (t->n_python > run_start)
				end_run(t, frame);
			run_start = t->n_python;
		} else if (!push_frame(w, frame)) {
			torn(t);
			break;
		}
		if (!fm_sig_read_u64(t, frame + row->frame_previous, &frame)) {
			torn(t);
			break;
		}
	}
	if (t->n_python > run_start)
		end_run(t, 0);
}

FM_SIGSAFE void fm_sig_python_walk(struct fm_sig_thread *t, bool *ret_is_collecting)
{
	t->n_python = t->n_runs = 0;
	t->python_error = 0;
	*ret_is_collecting = false;
	if (!atomic_load_explicit(&fm_sig.has_python, memory_order_acquire))
		return;
	const struct fm_sig_python *py = &fm_sig.python;
	struct walk w = { t, &py->row, (uintptr_t)py->current_thread_state() };
	// Up to 3.11 the "current" state is the GIL holder's, of whatever thread; from 3.12 on it is this thread's, and none while
	// the GIL is released. The state that belongs to this thread in either case is PyGILState's.
	uint64_t owner;
	bool is_attached = w.ts && fm_sig_read_u64(t, w.ts + py->row.ts_thread_id, &owner) && owner == (uint64_t)pthread_self();
	if (!is_attached)
		w.ts = (uintptr_t)py->gilstate_thread_state();
	if (!w.ts)
		return;
	if (py->row.frames == FM_PY_FRAMES_SHIM)
		walk_shims(&w);
	else if (py->row.frames >= FM_PY_FRAMES_ENTRY_FLAG)
		walk_cframes(&w);
	else
		walk_objects(&w);

	uint64_t interp;
	uint32_t collecting = 0;
	if (is_attached && py->row.interp_gc_collecting) {
		if (fm_sig_read_u64(t, w.ts + py->row.ts_interp, &interp))
			fm_sig_read_u32(t, interp + py->row.interp_gc_collecting, &collecting);
	} else if (is_attached && py->row.runtime_gc_collecting) {
		fm_sig_read_u32(t, py->runtime + py->row.runtime_gc_collecting, &collecting);
	}
	*ret_is_collecting = collecting == 1;
}
