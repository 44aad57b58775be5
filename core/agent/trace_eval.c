// SPDX-License-Identifier: Apache-2.0
// Calls by the frame-evaluation hook of PEP 523: the interpreter evaluates every frame of every
// thread through one function pointer, which is ours while a trace runs. A hook that was there
// before is called in turn (up to 3.11; later ones are left to it).
//
// Up to 3.10 each Python call is a call of the evaluator anyhow, so this adds little. 3.11 and
// later would evaluate Python-to-Python calls within one evaluator call; with any hook set they do
// not, and recursion takes C stack as it did before. A program with a high recursion limit must not
// die of that, nor fail: before it comes to that, sys.monitoring takes over for the rest of the
// trace. 3.11 does not have it; there the hook is taken off near the end of the stack, until the
// recursion is back up. 3.13 is left to sys.monitoring.
#include <stddef.h>

#include "agent/py_api.h"
#include "agent/trace.h"

// A recursion of the program's own C code has to find as much room as it could need: from here on
// calls take none of it.
#define C_RECURSION_RESERVE_312 1000 // of 1500 in 3.12.1
#define C_RECURSION_REMAINING_312 36 // where the thread state has what is left of it. 3.14 looks at the stack itself

typedef struct py_object *(*eval_fn)(void *tstate, uint8_t *frame, int is_throw);
typedef struct py_object *(*eval_38_fn)(uint8_t *frame, int is_throw);

FM_PY_WEAK void _PyInterpreterState_SetEvalFrameFunc(void *interp, eval_fn fn);
FM_PY_WEAK eval_fn _PyInterpreterState_GetEvalFrameFunc(void *interp);

// Called without a stub in between, where the compiler can be told.
#if __has_attribute(noplt)
#define AT_ONCE __attribute__((noplt))
#else
#define AT_ONCE
#endif
// The interpreter's own evaluator, and the same as 3.8 has it.
FM_PY_WEAK AT_ONCE struct py_object *_PyEval_EvalFrameDefault(void *tstate, uint8_t *frame, int is_throw);
FM_PY_WEAK AT_ONCE struct py_object *eval_default_38(uint8_t *frame, int is_throw) __asm__("_PyEval_EvalFrameDefault");

static eval_fn our_eval, chained_eval; // chained_eval: the other tool's, which ours stands over
static eval_38_fn chained_eval_38;
static void *hooked_interp;
static bool is_deep_program; // it recursed so deeply once that the hook is not for it

// Where every release of a version has a frame's code, and that its name and line table: constants
// in the short way through the hook.
static FM_ALWAYS_INLINE unsigned usual_frame_code(unsigned minor)
{
	return minor <= 11 ? 32 : 0;
}

static FM_ALWAYS_INLINE struct fm_trace_code_layout usual_code_layout(unsigned minor)
{
	return minor <= 10 ? (struct fm_trace_code_layout){ 112, 120 } : (struct fm_trace_code_layout){ 120, 136 };
}

static bool has_usual_layout(const struct fm_py_row *row)
{
	struct fm_trace_code_layout usual = usual_code_layout(row->minor);
	return row->frame_code == usual_frame_code(row->minor) && row->code_name == usual.name &&
	       row->code_line_table == usual.lines;
}

static FM_ALWAYS_INLINE uintptr_t code_of(const uint8_t *frame, unsigned minor)
{
	uintptr_t code = *(const uintptr_t *)(frame + usual_frame_code(minor));
	return minor >= 14 ? code & ~(uintptr_t)fm_sig.python.row.executable_tag_mask : code;
}

// f_lasti is -1 until a frame has run; one that has is a generator that goes on.
static inline uint32_t kind_by_lasti(const uint8_t *frame, int is_throw)
{
	return is_throw || *(const int32_t *)(frame + fm_sig.python.row.frame_lasti) >= 0 ? FM_WIRE_RESUME
											  : FM_WIRE_ENTER;
}

// A tool whose hook ours stands over may put its own on top again, and has it call ours then:
// without this they would call each other for ever. The frame that ours over another one has been
// asked to evaluate; the second time it is the interpreter's turn.
static __thread const uint8_t *chained_frame;

static FM_ALWAYS_INLINE struct py_object *eval_by_interpreter(void *tstate, uint8_t *frame, int is_throw,
							      unsigned minor)
{
	return minor == 8 ? eval_default_38(frame, is_throw) : _PyEval_EvalFrameDefault(tstate, frame, is_throw);
}

// The next one after us.
static FM_ALWAYS_INLINE struct py_object *go_on(void *tstate, uint8_t *frame, int is_throw, unsigned minor)
{
	if (FM_LIKELY(chained_frame != frame))
		return eval_by_interpreter(tstate, frame, is_throw, minor);
	return minor == 8 ? chained_eval_38(frame, is_throw) : chained_eval(tstate, frame, is_throw);
}

// What the interpreter calls once ours is off.
static eval_fn what_is_below(void)
{
	return fm_trace.door == FM_TRACE_BY_CHAINED_HOOK ? chained_eval : _PyEval_EvalFrameDefault;
}

// Too deep to go on call by call in C: lets the interpreter recurse by itself until this frame is
// done.
static __attribute__((noinline)) struct py_object *eval_without_hook(struct fm_trace_thread *t, void *tstate,
								     uint8_t *frame, int is_throw)
{
	uint32_t generation = fm_trace.calls_generation;
	atomic_fetch_add_explicit(&t->control->n_unseen, 1, memory_order_relaxed);
	_PyInterpreterState_SetEvalFrameFunc(hooked_interp, what_is_below());
	struct py_object *ret = go_on(tstate, frame, is_throw, fm_sig.python.row.minor);
	if (generation == fm_trace.calls_generation)
		_PyInterpreterState_SetEvalFrameFunc(hooked_interp, our_eval);
	return ret;
}

// The same from 3.12 on, where nothing is lost: ends of the calls that are open come from there,
// too, because the generation is another.
static __attribute__((noinline)) struct py_object *eval_by_monitoring(struct fm_trace_thread *t, void *tstate,
								      uint8_t *frame, int is_throw)
{
	struct py_object *type, *value, *traceback;
	PyErr_Fetch(&type, &value, &traceback);
	fm_trace_eval_stop();
	const char *problem = fm_trace_monitor_start();
	if (problem)
		fm_trace_eval_start();
	else
		fm_trace_renew(true);
	PyErr_Restore(type, value, traceback);
	if (problem)
		return eval_without_hook(t, tstate, frame, is_throw);
	is_deep_program = true;
	return _PyEval_EvalFrameDefault(tstate, frame, is_throw);
}

// Near enough to where the frame is, and the compiler need not keep one register for that.
static FM_ALWAYS_INLINE uintptr_t stack_pointer(void)
{
#if defined(__x86_64__)
	uintptr_t ret;
	__asm__("mov %%rsp, %0" : "=r"(ret));
	return ret;
#else
	return (uintptr_t)__builtin_frame_address(0);
#endif
}

static FM_ALWAYS_INLINE bool is_too_deep(const struct fm_trace_thread *t, const uint8_t *tstate, unsigned minor)
{
	if (minor <= 10)
		return false;
	if (stack_pointer() < t->stack_floor)
		return true;
	return minor == 12 && *(const int32_t *)(tstate + C_RECURSION_REMAINING_312) < C_RECURSION_RESERVE_312;
}

// Before a generator's frame was ever resumed it stands at the instruction that made the generator
// or, in 3.14, behind it.
static FM_ALWAYS_INLINE bool is_new_generator(const uint8_t *frame, unsigned minor)
{
	const uint8_t *instr = *(const uint8_t *const *)(frame + fm_sig.python.row.frame_lasti);
	return minor <= 12 ? instr[0] == 75 : instr[-2] == 34; // RETURN_GENERATOR
}

// One function for all versions, of which the compiler makes one for each: minor and has_cycles are
// constants where it matters.
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
			return go_on(tstate, frame, is_throw, minor); // makes the generator, runs nothing of it
		if (is_throw || !is_new_generator(frame, minor))
			kind = FM_WIRE_RESUME;
	}
	if (FM_UNLIKELY(is_too_deep(t, tstate, minor)))
		return minor >= 12 ? eval_by_monitoring(t, tstate, frame, is_throw)
				   : eval_without_hook(t, tstate, frame, is_throw);
	fm_trace_push(t, has_cycles ? fm_cycles() : fm_now_ns(), kind, id);
	struct py_object *ret = go_on(tstate, frame, is_throw, minor);
	uint64_t stamp = has_cycles ? fm_cycles() : fm_now_ns();
	if (FM_LIKELY(generation == atomic_load_explicit(&fm_trace.calls_generation, memory_order_relaxed)))
		fm_trace_push(t, stamp, FM_WIRE_LEAVE, id);
	return ret;
}

// With C calls, lines or a slow clock: the thread's profile function is set once, its trace
// function while lines of the running function are wanted. That may run Python code, which may take
// the entry's place: code is a copy.
static __attribute__((noinline)) struct py_object *record_more(struct fm_trace_thread *t, struct fm_trace_code code,
							       uint32_t generation, void *tstate, uint8_t *frame,
							       int is_throw)
{
	if (!t->is_setting)
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

static void take_off(void);

static FM_ALWAYS_INLINE struct py_object *on_any(void *tstate, uint8_t *frame, int is_throw, unsigned minor)
{
	uint32_t generation;
	struct fm_trace_thread *t =
		fm_trace.door != FM_TRACE_BY_MONITORING ? fm_trace_self_for_calls(&generation) : NULL;
	if (FM_UNLIKELY(!t)) {
		if (!hooked_interp)
			take_off();
		return go_on(tstate, frame, is_throw, minor);
	}
	const struct fm_trace_code *code = fm_trace_code(t, code_of(frame, minor));
	if (FM_UNLIKELY(fm_trace.flags != 0))
		return record_more(t, *code, generation, tstate, frame, is_throw);
	return record(t, code, generation, tstate, frame, is_throw, minor, true);
}

static __attribute__((noinline)) struct py_object *leave_with_room(struct fm_trace_thread *t, uint64_t stamp,
								   uint32_t id, struct py_object *ret)
{
	fm_trace_push(t, stamp, FM_WIRE_LEAVE, id);
	return ret;
}

// Most calls are of a function that was met before, no generator, with room for two more events.
// They take the short way: what else there may be to do is no part of this function, or the
// compiler would have it save and restore twice as many registers. Each instruction counts here, a
// third of a nanosecond for four of them.
static FM_ALWAYS_INLINE struct py_object *on_eval(void *tstate, uint8_t *frame, int is_throw, unsigned minor,
						  eval_fn on_any_fn)
{
	struct fm_trace_thread *t = fm_trace_own.thread; // there is one, if it is of this generation
	uint32_t generation = fm_trace_own.generation;
	if (FM_UNLIKELY(generation != atomic_load_explicit(&fm_trace.hook_generation, memory_order_relaxed)))
		return on_any_fn(tstate, frame, is_throw);
	uint64_t head;
	uintptr_t code_address = code_of(frame, minor);
	const struct fm_trace_code *code = fm_trace_code_place(t, code_address);
	if (FM_UNLIKELY(!fm_trace_code_is_met(code, code_address, usual_code_layout(minor)) || !code->is_plain ||
			!fm_trace_has_room(t, &head) || is_too_deep(t, tstate, minor)))
		return on_any_fn(tstate, frame, is_throw);
	uint32_t id = code->id;
	fm_trace_write(t, head, fm_cycles(), FM_WIRE_ENTER, id);
	struct py_object *ret = eval_by_interpreter(tstate, frame, is_throw, minor);
	uint64_t stamp = fm_cycles();
	if (FM_UNLIKELY(generation != atomic_load_explicit(&fm_trace.hook_generation, memory_order_relaxed)))
		return ret;
	if (FM_UNLIKELY(!fm_trace_has_room(t, &head)))
		return leave_with_room(t, stamp, id, ret);
	fm_trace_write(t, head, stamp, FM_WIRE_LEAVE, id);
	return ret;
}

// The hook that was put over the interpreter's own evaluator: below it there is nobody else.
static FM_ALWAYS_INLINE struct py_object *on_any_alone(void *tstate, uint8_t *frame, int is_throw, unsigned minor)
{
	if (FM_UNLIKELY(chained_frame == frame)) // the other one of ours has it already
		return eval_by_interpreter(tstate, frame, is_throw, minor);
	return on_any(tstate, frame, is_throw, minor);
}

static __attribute__((noinline)) struct py_object *on_any_38(void *tstate, uint8_t *frame, int is_throw)
{
	return on_any_alone(tstate, frame, is_throw, 8);
}

static struct py_object *on_eval_38(uint8_t *frame, int is_throw)
{
	return on_eval(NULL, frame, is_throw, 8, on_any_38);
}

// The hook over another tool's.
static struct py_object *on_eval_chained(void *tstate, uint8_t *frame, int is_throw)
{
	const uint8_t *outer = chained_frame;
	if (outer == frame)
		return eval_by_interpreter(tstate, frame, is_throw, fm_sig.python.row.minor);
	chained_frame = frame;
	struct py_object *ret = on_any(tstate, frame, is_throw, fm_sig.python.row.minor);
	chained_frame = outer;
	return ret;
}

static struct py_object *on_eval_chained_38(uint8_t *frame, int is_throw)
{
	return on_eval_chained(NULL, frame, is_throw);
}

#define HOOK_OF(version, minor)                                                                           \
	static __attribute__((noinline)) struct py_object *on_any_##version(void *tstate, uint8_t *frame, \
									    int is_throw)                 \
	{                                                                                                 \
		return on_any_alone(tstate, frame, is_throw, minor);                                      \
	}                                                                                                 \
	static struct py_object *on_eval_##version(void *tstate, uint8_t *frame, int is_throw)            \
	{                                                                                                 \
		return on_eval(tstate, frame, is_throw, minor, on_any_##version);                         \
	}
HOOK_OF(39, 9)
HOOK_OF(311, 11)
HOOK_OF(312, 12)
HOOK_OF(314, 14)

static void *current_interp(void)
{
	return *(void **)((uint8_t *)PyThreadState_Get() + fm_sig.python.row.ts_interp);
}

bool fm_trace_eval_is_for(uint32_t flags)
{
	unsigned minor = fm_sig.python.row.minor;
	if (minor <= 11)
		return true;
	// The change to sys.monitoring in deep recursions is made for one thread at a time.
	if (fm_sig.python.row.is_free_threaded)
		return false;
	// 3.13 calls the __init__ of a class past the hook. What later ones do is not known.
	return (minor == 12 || minor == 14) && !flags && !is_deep_program && _PyInterpreterState_SetEvalFrameFunc &&
	       _PyInterpreterState_GetEvalFrameFunc && _PyEval_EvalFrameDefault &&
	       _PyInterpreterState_GetEvalFrameFunc(current_interp()) == _PyEval_EvalFrameDefault &&
	       has_usual_layout(&fm_sig.python.row);
}

static eval_38_fn *hook_38(void *interp)
{
	return (void *)((uint8_t *)interp + fm_sig.python.row.interp_eval_frame);
}

static void start_38(void *interp)
{
	eval_38_fn have = *hook_38(interp);
	bool is_alone = have == on_eval_38 || have == eval_default_38;
	if (!is_alone && have != on_eval_chained_38)
		chained_eval_38 = have;
	fm_trace.door = is_alone ? FM_TRACE_BY_HOOK : FM_TRACE_BY_CHAINED_HOOK;
	*hook_38(interp) = is_alone ? on_eval_38 : on_eval_chained_38;
}

static eval_fn hook_alone(void)
{
	static const eval_fn by_minor[] = {
		[9] = on_eval_39, [10] = on_eval_39, [11] = on_eval_311, [12] = on_eval_312, [14] = on_eval_314
	};
	return by_minor[fm_sig.python.row.minor];
}

// No trace runs, but ours is there: a tool that stood over it when the last one ended has put back what it had found.
// The interpreter must not be left with any hook, as it then recurses by C stack. The first frame that comes here takes
// it off.
static __attribute__((noinline, cold)) void take_off(void)
{
	void *interp = current_interp();
	if (fm_sig.python.row.minor == 8) {
		if (*hook_38(interp) == on_eval_38)
			*hook_38(interp) = eval_default_38;
		else if (*hook_38(interp) == on_eval_chained_38)
			*hook_38(interp) = chained_eval_38;
		return;
	}
	eval_fn have = _PyInterpreterState_GetEvalFrameFunc(interp);
	if (have == hook_alone())
		_PyInterpreterState_SetEvalFrameFunc(interp, _PyEval_EvalFrameDefault);
	else if (have == on_eval_chained)
		_PyInterpreterState_SetEvalFrameFunc(interp, chained_eval);
}

static void start(void *interp)
{
	eval_fn alone = hook_alone(), have = _PyInterpreterState_GetEvalFrameFunc(interp);
	bool is_alone = have == alone || have == _PyEval_EvalFrameDefault;
	if (!is_alone && have != on_eval_chained)
		chained_eval = have;
	fm_trace.door = is_alone ? FM_TRACE_BY_HOOK : FM_TRACE_BY_CHAINED_HOOK;
	our_eval = is_alone ? alone : on_eval_chained;
	_PyInterpreterState_SetEvalFrameFunc(interp, our_eval);
}

const char *fm_trace_eval_start(void)
{
	bool is_38 = fm_sig.python.row.minor == 8;
	void *interp = current_interp();
	if (!_PyEval_EvalFrameDefault ||
	    (!is_38 && (!_PyInterpreterState_SetEvalFrameFunc || !_PyInterpreterState_GetEvalFrameFunc)))
		return "this Python has no frame-evaluation hook";
	if (!has_usual_layout(&fm_sig.python.row))
		return "frames of this Python are not laid out as those of its release";
	if (is_38)
		start_38(interp);
	else
		start(interp);
	hooked_interp = interp;
	return NULL;
}

// A hook that was set over ours keeps calling us; then we stay, and do nothing, until it has gone.
void fm_trace_eval_stop(void)
{
	if (!hooked_interp)
		return;
	bool is_chained = fm_trace.door == FM_TRACE_BY_CHAINED_HOOK;
	if (fm_sig.python.row.minor == 8) {
		if (*hook_38(hooked_interp) == (is_chained ? on_eval_chained_38 : on_eval_38))
			*hook_38(hooked_interp) = is_chained ? chained_eval_38 : eval_default_38;
	} else if (_PyInterpreterState_GetEvalFrameFunc(hooked_interp) == our_eval) {
		_PyInterpreterState_SetEvalFrameFunc(hooked_interp, what_is_below());
	}
	hooked_interp = NULL;
}
