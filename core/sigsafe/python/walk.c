// SPDX-License-Identifier: Apache-2.0
// Walking the frames. CPython's evaluator keeps something of each of its calls on the C stack (a
// cframe up to 3.12, a shim frame from 3.12 on); the address of that thing is the run's marker, by
// which merge.c finds the C frame that owns the run.
#include "sigsafe/python/python.h"

#include "format/model.h"
#include "sigsafe/base/budget.h"
#include "sigsafe/python/thread_state.h"
#include "sigsafe/base/raw.h"
#include "sigsafe/base/context.h"
#include "sigsafe/unwind/unwind.h"

#include "sigsafe/base/sigsafe.h"

// The evaluator's first instructions, in which it links its cframe; the longest seen is 240 bytes.
#define EVALUATOR_PROLOGUE_BYTES 512

struct walk {
	struct fm_sig_thread *t;
	const struct fm_py_row *row;
	uintptr_t ts;
	const ucontext_t *uc;
	bool is_cut; // the time was up
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

// Appends one frame. False: not one we can believe in; nothing appended.
static FM_SIGSAFE bool push_frame(struct walk *w, uintptr_t frame)
{
	struct fm_sig_thread *t = w->t;
	const struct fm_py_row *row = w->row;
	if (t->n_python == FM_SIG_MAX_FRAMES)
		return false;
	uint64_t code, offset;
	if (!fm_py_read_frame_code(fm_sig_py_read, NULL, row, frame, &code))
		return false;
	uint32_t id = fm_sig_code_id(t, code);
	if (id == 0)
		return false;
	if (id == FM_SIG_NOT_A_FUNCTION)
		return true;
	if (!fm_py_read_offset(fm_sig_py_read, NULL, row, frame, code, &offset))
		return false;
	if (t->n_python < FM_SIG_AHEAD) {
		t->met[t->n_python].frame = frame;
		t->met[t->n_python].code = code;
	}
	t->python[t->n_python++] = FM_WIRE_FRAME_PYTHON << FM_WIRE_FRAME_SHIFT | (uint64_t)id << 32 | offset;
	return true;
}

static FM_SIGSAFE void torn(struct walk *w)
{
	struct fm_sig_thread *t = w->t;
	t->python_error = w->is_cut                          ? FM_STACK_CUT
			  : t->n_python == FM_SIG_MAX_FRAMES ? FM_STACK_TOO_DEEP
							     : FM_STACK_PYTHON_TORN;
}

// 3.8 to 3.10: frame objects, one evaluator call each. Runs get their markers from the cframe chain
// (3.10); on 3.8 and 3.9 merge.c finds the evaluator's C frames itself.
static FM_SIGSAFE void walk_objects(struct walk *w)
{
	struct fm_sig_thread *t = w->t;
	const struct fm_py_row *row = w->row;
	uint64_t frame;
	if (!fm_sig_read_u64(w->ts + row->ts_frame, &frame))
		return;
	for (uint32_t n = 0; frame; n++) {
		uint64_t previous;
		w->is_cut = fm_sig_is_out_of_time(t, n);
		if (w->is_cut || !fm_sig_read_u64(frame + row->frame_previous, &previous) || !push_frame(w, frame)) {
			torn(w);
			break;
		}
		end_run(t, 0);
		frame = previous;
	}
	if (row->frames != FM_PY_FRAMES_OBJECTS_CFRAME)
		return;
	// The chains are in step at the outer end; at the inner end one may be ahead while the
	// evaluator enters or leaves.
	uint32_t n_cframes = 0;
	uint64_t cframe, first;
	if (!fm_sig_read_u64(w->ts + row->ts_cframe, &first))
		return;
	for (cframe = first; cframe - w->ts >= FM_PY_THREAD_STATE_BYTES && n_cframes < FM_SIG_MAX_RUNS; n_cframes++)
		if (fm_sig_is_out_of_time(t, n_cframes) || !fm_sig_read_u64(cframe + row->cframe_previous, &cframe))
			return;
	cframe = first;
	for (uint32_t i = 0; i < n_cframes; i++) {
		int64_t run = (int64_t)i + t->n_runs - n_cframes;
		if (run >= 0)
			t->runs[run].marker = cframe;
		if (!fm_sig_read_u64(cframe + row->cframe_previous, &cframe))
			return;
	}
}

enum chain { CHAIN_BROKEN, CHAIN_GOES_ON, CHAIN_ENDS };

// Up to 3.12 what comes after a run must be the outer call's frame. *frame moves outwards by one;
// on CHAIN_ENDS it is the outer call's.
static FM_SIGSAFE enum chain step_outwards(const struct walk *w, uint64_t *frame, uint64_t outer_frame,
					   bool *ret_is_shim)
{
	struct fm_py_step step;
	if (*frame == outer_frame || !fm_py_read_step(fm_sig_py_read, NULL, w->row, *frame, &step))
		return CHAIN_BROKEN;
	*ret_is_shim = step.is_shim;
	*frame = step.previous;
	if (!step.is_last)
		return CHAIN_GOES_ON;
	return w->row->frames == FM_PY_FRAMES_SHIM || step.previous == outer_frame ? CHAIN_ENDS : CHAIN_BROKEN;
}

// Pushes a run's frames. False when it does not end as a run does; then nothing is pushed.
static FM_SIGSAFE bool push_run(struct walk *w, uint64_t *frame, uint64_t outer_frame, uint64_t *ret_last)
{
	struct fm_sig_thread *t = w->t;
	uint32_t n_before = t->n_python;
	for (uint32_t n = 0; n < FM_SIG_MAX_FRAMES; n++) {
		uint64_t at = *frame;
		bool is_shim;
		w->is_cut = fm_sig_is_out_of_time(t, t->n_python + n);
		if (w->is_cut)
			return true;
		enum chain chain = step_outwards(w, frame, outer_frame, &is_shim);
		if (chain == CHAIN_BROKEN || (!is_shim && !push_frame(w, at))) {
			bool is_full = t->n_python == FM_SIG_MAX_FRAMES;
			if (!is_full)
				t->n_python = n_before;
			return is_full;
		}
		if (chain == CHAIN_ENDS) {
			*ret_last = at;
			return true;
		}
	}
	return true;
}

// How many frames a run has from here on; 0 when it is none. Frames without a code object are none.
static FM_SIGSAFE uint32_t measure_run(const struct walk *w, uint64_t frame, uint64_t outer_frame)
{
	for (uint32_t n = 1; n < FM_SIG_MAX_FRAMES && !fm_sig_is_out_of_time(w->t, n); n++) {
		uint64_t code, type, at = frame;
		bool is_shim;
		enum chain chain = step_outwards(w, &frame, outer_frame, &is_shim);
		if (chain == CHAIN_BROKEN)
			return 0;
		if (!is_shim) {
			if (!fm_py_read_frame_code(fm_sig_py_read, NULL, w->row, at, &code) || (code & 7) ||
			    !fm_sig_read_u64(code + w->row->object_type, &type) || type != fm_sig.python.code_type)
				return 0;
		}
		if (chain == CHAIN_ENDS)
			return n;
	}
	return 0;
}

struct cframe {
	uint64_t frame, outer, outer_frame; // its current frame, the cframe outside of it, and that one's current frame
};

static FM_SIGSAFE bool read_cframe(const struct walk *w, uint64_t cframe, struct cframe *ret)
{
	const struct fm_py_row *row = w->row;
	return fm_sig_read_u64(cframe + row->cframe_current_frame, &ret->frame) &&
	       fm_sig_read_u64(cframe + row->cframe_previous, &ret->outer) &&
	       fm_sig_read_u64(ret->outer + row->cframe_current_frame, &ret->outer_frame);
}

// True for a cframe whose frames make up a whole run and from which the chain leads outwards to the
// one inside the thread state.
static FM_SIGSAFE bool is_cframe(const struct walk *w, uint64_t cframe, uint64_t inner)
{
	struct cframe c;
	if (cframe - w->ts >= FM_PY_THREAD_STATE_BYTES &&
	    ((cframe & 7) || !read_cframe(w, cframe, &c) || !measure_run(w, c.frame, c.outer_frame)))
		return false;
	for (uint32_t n = 0; n < FM_SIG_MAX_RUNS && !fm_sig_is_out_of_time(w->t, n); n++) {
		if (cframe - w->ts < FM_PY_THREAD_STATE_BYTES)
			return true;
		if (cframe <= inner || (cframe & 7))
			return false;
		inner = cframe;
		if (!fm_sig_read_u64(cframe + w->row->cframe_previous, &cframe))
			return false;
	}
	return false;
}

#if defined(__x86_64__)
#define N_GENERAL_REGISTERS 16
static FM_SIGSAFE uint64_t general_register(const ucontext_t *uc, unsigned i)
{
	return (uint64_t)uc->uc_mcontext.gregs[i]; // REG_R8 = 0 to REG_RIP = 16
}

#define N_VECTOR_HALVES 32
static FM_SIGSAFE uint64_t vector_half(const ucontext_t *uc, unsigned i)
{
	const __typeof__(*uc->uc_mcontext.fpregs) *fp = uc->uc_mcontext.fpregs; // each libc has a name for it
	if (!fp)
		return 0;
	const uint32_t *words = &fp->_xmm[i / 2].element[(i & 1) * 2];
	return (uint64_t)words[0] | (uint64_t)words[1] << 32;
}
#else
#define N_GENERAL_REGISTERS 31
static FM_SIGSAFE uint64_t general_register(const ucontext_t *uc, unsigned i)
{
	return uc->uc_mcontext.regs[i];
}

#define N_VECTOR_HALVES 0
static FM_SIGSAFE uint64_t vector_half(const ucontext_t *uc, unsigned i)
{
	(void)uc;
	return i * 0;
}
#endif

static FM_SIGSAFE bool is_entering_evaluator(const struct walk *w)
{
	uint64_t pc = fm_sig_context_pc(w->uc), start = fm_sig.python.evaluator.part[0].start;
	return start && pc >= start && pc - start < EVALUATOR_PROLOGUE_BYTES;
}

// Where the evaluator's loop begins, as far as is known: its prologue ends with it, but every call
// of one Python function by another goes through its first instructions again. The lowest pc of all
// that were surely there.
static _Atomic uint64_t loop_start = UINT64_MAX;

// True when the evaluator's cframe is its own, false when it may hold what an earlier call left
// there, in part or whole. With a second function in its run it has been through the loop.
static FM_SIGSAFE bool is_filled_in(const struct walk *w, uint64_t cframe)
{
	uint64_t pc = fm_sig_context_pc(w->uc);
	struct cframe c;
	if (pc >= atomic_load_explicit(&loop_start, memory_order_relaxed))
		return true;
	if (!read_cframe(w, cframe, &c) ||
	    measure_run(w, c.frame, c.outer_frame) < (w->row->frame_is_entry ? 2 : 3)) // 3.12: with the shim
		return false;
	atomic_store_explicit(&loop_start, pc, memory_order_relaxed); // a race of two loses one of them for now
	return true;
}

// The evaluator links its cframe into the thread state first and fills it in some instructions
// later, both fields in one store. Until then the cframe holds whatever was on the stack, often
// what an earlier call left there, which looks right and is not. The outer cframe is in a register
// meanwhile, general or vector: it is the innermost one of all that lead to the root. The call that
// is being entered has not begun; its time is its caller's.
static FM_SIGSAFE uint64_t find_outer_cframe(const struct walk *w, uint64_t entering)
{
	uint64_t best = 0, previous;
	if (fm_sig_read_u64(entering + w->row->cframe_previous, &previous) && is_cframe(w, previous, entering))
		best = previous;
	for (unsigned i = 0; i < N_GENERAL_REGISTERS + N_VECTOR_HALVES; i++) {
		uint64_t reg = i < N_GENERAL_REGISTERS ? general_register(w->uc, i)
						       : vector_half(w->uc, i - N_GENERAL_REGISTERS);
		// The root is in the thread state, to which another register points anyway: it is
		// what is left when none is better.
		bool is_root = reg - w->ts < FM_PY_THREAD_STATE_BYTES;
		if (!best && is_root)
			best = reg;
		else if (!is_root && reg > entering && is_cframe(w, reg, entering) &&
			 (!best || reg < best || best - w->ts < FM_PY_THREAD_STATE_BYTES))
			best = reg;
	}
	return best;
}

// The innermost run changes with every call and return, and the compiler orders the stores of that
// as it likes: for an instruction or two the current frame may be one not yet filled in, or one
// already cut off from its caller (a generator that yields). The caller is in a register then,
// because the next store needs it: of all registers that lead to the run's end, it is the one with
// the longest way there.
static FM_SIGSAFE uint64_t find_innermost_frame(const struct walk *w, uint64_t current, uint64_t outer_frame)
{
	uint64_t best = 0, candidate;
	uint32_t best_length = 0;
	for (unsigned i = 0; i <= N_GENERAL_REGISTERS; i++) {
		if (i < N_GENERAL_REGISTERS)
			candidate = general_register(w->uc, i);
		else if (!fm_sig_read_u64(current + w->row->frame_previous, &candidate))
			continue;
		if (!candidate || candidate == current)
			continue;
		uint32_t length = measure_run(w, candidate, outer_frame);
		if (length > best_length) {
			best_length = length;
			best = candidate;
		}
	}
	return best;
}

// 3.11 and 3.12: every evaluator call has a cframe, which knows the call's current frame.
static FM_SIGSAFE void walk_cframes(struct walk *w)
{
	struct fm_sig_thread *t = w->t;
	uint64_t cframe, last = 0;
	if (!fm_sig_read_u64(w->ts + w->row->ts_cframe, &cframe))
		return;
	if (FM_UNLIKELY(is_entering_evaluator(w)) && fm_sig_is_in_leaf_frame(t, w->uc, cframe) &&
	    !is_filled_in(w, cframe)) {
		cframe = find_outer_cframe(w, cframe);
		if (!cframe) {
			torn(w);
			return;
		}
	}
	for (uint32_t n = 0; cframe && cframe - w->ts >= FM_PY_THREAD_STATE_BYTES; n++) {
		struct cframe c;
		if (n == FM_SIG_MAX_RUNS || !read_cframe(w, cframe, &c)) {
			torn(w);
			return;
		}
		// A greenlet begins with a cframe of its own, in front of the thread's root, that
		// has no frame. As the innermost one that would be what a call has left behind.
		if (FM_UNLIKELY(!c.frame && n && c.outer - w->ts < FM_PY_THREAD_STATE_BYTES))
			return;
		uint64_t frame = c.frame;
		if (FM_UNLIKELY(!push_run(w, &frame, c.outer_frame, &last))) {
			frame = n == 0 ? find_innermost_frame(w, c.frame, c.outer_frame) : 0;
			if (!frame || !push_run(w, &frame, c.outer_frame, &last)) {
				torn(w);
				return;
			}
		}
		end_run(t, cframe);
		if (w->is_cut || t->n_python == FM_SIG_MAX_FRAMES) {
			torn(w);
			return;
		}
		cframe = c.outer;
	}
}

// 3.13 and later: one chain, in which a shim frame on the C stack ends each evaluator call's run.
static FM_SIGSAFE void walk_shims(struct walk *w)
{
	struct fm_sig_thread *t = w->t;
	uint64_t frame, shim = 0;
	if (!fm_sig_read_u64(w->ts + w->row->ts_current_frame, &frame))
		return;
	for (uint32_t n = 0; frame; n++) {
		uint64_t current = frame;
		uint32_t n_before = t->n_python;
		if (FM_UNLIKELY(!push_run(w, &frame, 0, &shim))) {
			frame = n == 0 ? find_innermost_frame(w, current, 0) : 0;
			if (!frame || !push_run(w, &frame, 0, &shim)) {
				torn(w);
				return;
			}
		}
		if (t->n_python > n_before)
			end_run(t, shim);
		if (w->is_cut || n == FM_SIG_MAX_FRAMES || t->n_python == FM_SIG_MAX_FRAMES) {
			torn(w);
			return;
		}
	}
}

FM_SIGSAFE void fm_sig_python_walk(struct fm_sig_thread *t, const ucontext_t *uc, bool *ret_is_collecting)
{
	t->n_python = t->n_runs = 0;
	t->python_error = 0;
	*ret_is_collecting = false;
	if (!atomic_load_explicit(&fm_sig.has_python, memory_order_acquire))
		return;
	const struct fm_sig_python *py = &fm_sig.python;
	struct walk w = { t, &py->row, 0, uc, false };
	bool is_attached;
	w.ts = fm_sig_thread_state(t, &is_attached);
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
		*ret_is_collecting = fm_sig_read_u64(w.ts + py->row.ts_interp, &interp) &&
				     fm_sig_read_u32(interp + py->row.interp_gc_collecting, &collecting) &&
				     collecting == 1;
	} else if (is_attached && py->row.runtime_gc_collecting) {
		*ret_is_collecting =
			fm_sig_read_u32(py->runtime + py->row.runtime_gc_collecting, &collecting) && collecting == 1;
	}
}
