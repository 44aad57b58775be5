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

static inline struct fm_trace_thread *thread_when_on(void)
{
	return atomic_load_explicit(&fm_trace.is_on, memory_order_relaxed) ? fm_trace_self() : NULL;
}

static inline uintptr_t code_of(const uint8_t *frame)
{
	return *(const uintptr_t *)(frame + fm_sig.python.row.frame_code);
}

static inline void arm(struct fm_trace_thread *t)
{
	if (FM_UNLIKELY(fm_trace.flags && t->armed != fm_trace.generation))
		fm_trace_profile_arm(t);
}

// f_lasti is -1 until a frame has run; one that has is a generator that goes on.
static inline uint32_t kind_by_lasti(const uint8_t *frame, int is_throw)
{
	return is_throw || *(const int32_t *)(frame + fm_sig.python.row.frame_lasti) >= 0 ? FM_WIRE_RESUME
											  : FM_WIRE_ENTER;
}

static inline void leave(struct fm_trace_thread *t, uint32_t generation, uint32_t id)
{
	uint64_t stamp = fm_trace_stamp();
	if (FM_LIKELY(generation == atomic_load_explicit(&fm_trace.generation, memory_order_relaxed)))
		fm_trace_leave(t, stamp, FM_WIRE_LEAVE, id);
}

static struct py_object *on_eval_39(void *tstate, uint8_t *frame, int is_throw)
{
	struct fm_trace_thread *t = thread_when_on();
	uint32_t id;
	if (!t || !(id = fm_trace_code(t, code_of(frame))->id))
		return next_eval(tstate, frame, is_throw);
	arm(t);
	uint32_t generation = atomic_load_explicit(&fm_trace.generation, memory_order_relaxed);
	fm_trace_enter(t, kind_by_lasti(frame, is_throw), id);
	struct py_object *ret = next_eval(tstate, frame, is_throw);
	leave(t, generation, id);
	return ret;
}

static struct py_object *on_eval_38(uint8_t *frame, int is_throw)
{
	struct fm_trace_thread *t = thread_when_on();
	uint32_t id;
	if (!t || !(id = fm_trace_code(t, code_of(frame))->id))
		return next_eval_38(frame, is_throw);
	arm(t);
	uint32_t generation = atomic_load_explicit(&fm_trace.generation, memory_order_relaxed);
	fm_trace_enter(t, kind_by_lasti(frame, is_throw), id);
	struct py_object *ret = next_eval_38(frame, is_throw);
	leave(t, generation, id);
	return ret;
}

// Too deep to go on call by call in C: lets the interpreter recurse by itself until this frame is done.
static __attribute__((noinline)) struct py_object *eval_without_hook(struct fm_trace_thread *t, void *tstate,
								     uint8_t *frame, int is_throw)
{
	uint32_t generation = fm_trace.generation;
	atomic_fetch_add_explicit(&t->control->n_unseen, 1, memory_order_relaxed);
	_PyInterpreterState_SetEvalFrameFunc(hooked_interp, next_eval);
	struct py_object *ret = next_eval(tstate, frame, is_throw);
	if (generation == fm_trace.generation)
		_PyInterpreterState_SetEvalFrameFunc(hooked_interp, on_eval_311);
	return ret;
}

static struct py_object *on_eval_311(void *tstate, uint8_t *frame, int is_throw)
{
	const struct fm_py_row *row = &fm_sig.python.row;
	struct fm_trace_thread *t = thread_when_on();
	if (!t)
		return next_eval(tstate, frame, is_throw);
	const struct fm_trace_code *code = fm_trace_code(t, code_of(frame));
	uint32_t id = code->id, kind = FM_WIRE_ENTER;
	if (FM_UNLIKELY(!id))
		return next_eval(tstate, frame, is_throw);
	if (code->is_generator) {
		if (frame[row->frame_owner] != row->generator_owner)
			return next_eval(tstate, frame, is_throw); // makes the generator, runs nothing of it
		const uint8_t *instr = *(const uint8_t *const *)(frame + row->frame_lasti);
		if (is_throw || *instr != RETURN_GENERATOR_311)
			kind = FM_WIRE_RESUME;
	}
	if (FM_UNLIKELY((uintptr_t)__builtin_frame_address(0) < t->stack_floor))
		return eval_without_hook(t, tstate, frame, is_throw);
	arm(t);
	uint32_t generation = atomic_load_explicit(&fm_trace.generation, memory_order_relaxed);
	fm_trace_enter(t, kind, id);
	struct py_object *ret = next_eval(tstate, frame, is_throw);
	leave(t, generation, id);
	return ret;
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
