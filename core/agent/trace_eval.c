// Calls up to CPython 3.11, by the frame-evaluation hook of PEP 523: the interpreter evaluates every frame of every thread
// through one function pointer, which is ours while a trace runs. A hook that was there before is called in turn.
//
// Up to 3.10 each Python call is a call of the evaluator anyhow, so this adds little. 3.11 would evaluate Python-to-Python calls
// within one evaluator call; with any hook set it does not, and recursion takes C stack as it did before. A program with a high
// recursion limit must not die of that: near the end of the stack the hook is taken off until the recursion is back up.
#include <stddef.h>

#include "agent/py_api.h"
#include "agent/trace.h"

#define RETURN_GENERATOR_311 75 // the instruction that a generator's frame stands at before it was ever resumed

typedef struct py_object *(*eval_fn)(void *tstate, uint8_t *frame, int is_throw);
typedef struct py_object *(*eval_38_fn)(uint8_t *frame, int is_throw);

FM_PY_WEAK void _PyInterpreterState_SetEvalFrameFunc(void *interp, eval_fn fn);
FM_PY_WEAK eval_fn _PyInterpreterState_GetEvalFrameFunc(void *interp);

static eval_fn next_eval;
static eval_38_fn next_eval_38;
static void *hooked_interp;

static struct py_object *on_eval_311(void *tstate, uint8_t *frame, int is_throw);

static inline uintptr_t code_of(const uint8_t *frame)
{
	return *(const uintptr_t *)(frame + fm_sig.python.row.frame_code);
}

// f_lasti is -1 until a frame has run; one that has is a generator that goes on.
static inline uint32_t kind_by_lasti(const uint8_t *frame, int is_throw)
{
	return is_throw || *(const int32_t *)(frame + fm_sig.python.row.frame_lasti) >= 0 ? FM_WIRE_RESUME
											  : FM_WIRE_ENTER;
}

// Too deep to go on call by call in C: lets the interpreter recurse by itself until this frame is done.
static __attribute__((noinline)) struct py_object *eval_without_hook(struct fm_trace_thread *t, void *tstate,
								     uint8_t *frame, int is_throw)
{
	uint32_t generation = fm_trace.calls_generation;
	atomic_fetch_add_explicit(&t->control->n_unseen, 1, memory_order_relaxed);
	_PyInterpreterState_SetEvalFrameFunc(hooked_interp, next_eval);
	struct py_object *ret = next_eval(tstate, frame, is_throw);
	if (generation == fm_trace.calls_generation)
		_PyInterpreterState_SetEvalFrameFunc(hooked_interp, on_eval_311);
	return ret;
}

static FM_ALWAYS_INLINE struct py_object *go_on(void *tstate, uint8_t *frame, int is_throw, unsigned minor)
{
	return minor == 8 ? next_eval_38(frame, is_throw) : next_eval(tstate, frame, is_throw);
}

// One function for all versions, of which the compiler makes one for each: minor and has_cycles are constants where it matters.
static FM_ALWAYS_INLINE struct py_object *record(struct fm_trace_thread *t, const struct fm_trace_code *code,
						 uint32_t generation, void *tstate, uint8_t *frame, int is_throw,
						 unsigned minor, bool has_cycles)
{
	const struct fm_py_row *row = &fm_sig.python.row;
	uint32_t id = code->id, kind = FM_WIRE_ENTER;
	if (FM_UNLIKELY(!id))
		return go_on(tstate, frame, is_throw, minor);
	if (minor <= 10) {
		kind = kind_by_lasti(frame, is_throw);
	} else if (code->is_generator) {
		if (frame[row->frame_owner] != row->generator_owner)
			return next_eval(tstate, frame, is_throw); // makes the generator, runs nothing of it
		const uint8_t *instr = *(const uint8_t *const *)(frame + row->frame_lasti);
		if (is_throw || *instr != RETURN_GENERATOR_311)
			kind = FM_WIRE_RESUME;
	}
	if (minor > 10 && FM_UNLIKELY((uintptr_t)__builtin_frame_address(0) < t->stack_floor))
		return eval_without_hook(t, tstate, frame, is_throw);
	fm_trace_push(t, has_cycles ? fm_cycles() : fm_now_ns(), kind, id);
	struct py_object *ret = go_on(tstate, frame, is_throw, minor);
	uint64_t stamp = has_cycles ? fm_cycles() : fm_now_ns();
	if (FM_LIKELY(generation == atomic_load_explicit(&fm_trace.calls_generation, memory_order_relaxed)))
		fm_trace_push(t, stamp, FM_WIRE_LEAVE, id);
	return ret;
}

// With C calls, lines or a slow clock: the thread's profile function is set once, its trace function while lines of the running function are wanted.
// That may run Python code, which may take the entry's place: code is a copy.
static __attribute__((noinline)) struct py_object *record_more(struct fm_trace_thread *t, struct fm_trace_code code,
							       uint32_t generation, void *tstate, uint8_t *frame,
							       int is_throw)
{
	if (t->armed != generation)
		fm_trace_profile_arm(t);
	if (!(fm_trace.flags & FM_TRACE_LINES) || t->is_setting)
		return record(t, &code, generation, tstate, frame, is_throw, fm_sig.python.row.minor,
			      fm_trace.has_cycles);
	bool before = fm_trace_profile_set_lines(t, code.has_lines);
	struct py_object *ret =
		record(t, &code, generation, tstate, frame, is_throw, fm_sig.python.row.minor, fm_trace.has_cycles);
	if (generation == atomic_load_explicit(&fm_trace.calls_generation, memory_order_relaxed))
		fm_trace_profile_set_lines(t, before);
	return ret;
}

static FM_ALWAYS_INLINE struct py_object *on_eval(void *tstate, uint8_t *frame, int is_throw, unsigned minor)
{
	uint32_t generation;
	struct fm_trace_thread *t = fm_trace_self_for_calls(&generation);
	if (FM_UNLIKELY(!t))
		return go_on(tstate, frame, is_throw, minor);
	const struct fm_trace_code *code = fm_trace_code(t, code_of(frame));
	if (FM_UNLIKELY(fm_trace.flags != 0))
		return record_more(t, *code, generation, tstate, frame, is_throw);
	return record(t, code, generation, tstate, frame, is_throw, minor, true);
}

static struct py_object *on_eval_38(uint8_t *frame, int is_throw)
{
	return on_eval(NULL, frame, is_throw, 8);
}

static struct py_object *on_eval_39(void *tstate, uint8_t *frame, int is_throw)
{
	return on_eval(tstate, frame, is_throw, 9);
}

static struct py_object *on_eval_311(void *tstate, uint8_t *frame, int is_throw)
{
	return on_eval(tstate, frame, is_throw, 11);
}

static void *current_interp(void)
{
	return *(void **)((uint8_t *)PyThreadState_Get() + fm_sig.python.row.ts_interp);
}

const char *fm_trace_eval_start(void)
{
	const struct fm_py_row *row = &fm_sig.python.row;
	void *interp = current_interp();
	if (row->minor == 8) {
		eval_38_fn *place = (void *)((uint8_t *)interp + row->interp_eval_frame);
		if (*place != on_eval_38)
			next_eval_38 = *place;
		*place = on_eval_38;
	} else {
		if (!_PyInterpreterState_SetEvalFrameFunc || !_PyInterpreterState_GetEvalFrameFunc)
			return "this Python has no frame-evaluation hook";
		eval_fn ours = row->minor == 11 ? on_eval_311 : on_eval_39;
		eval_fn have = _PyInterpreterState_GetEvalFrameFunc(interp);
		if (have != ours)
			next_eval = have;
		_PyInterpreterState_SetEvalFrameFunc(interp, ours);
	}
	hooked_interp = interp;
	return NULL;
}

// A hook that was set over ours keeps calling us; then we stay, and do nothing.
void fm_trace_eval_stop(void)
{
	const struct fm_py_row *row = &fm_sig.python.row;
	if (!hooked_interp)
		return;
	if (row->minor == 8) {
		eval_38_fn *place = (void *)((uint8_t *)hooked_interp + row->interp_eval_frame);
		if (*place == on_eval_38)
			*place = next_eval_38;
	} else {
		eval_fn have = _PyInterpreterState_GetEvalFrameFunc(hooked_interp);
		if (have == on_eval_311 || have == on_eval_39)
			_PyInterpreterState_SetEvalFrameFunc(hooked_interp, next_eval);
	}
	hooked_interp = NULL;
}
