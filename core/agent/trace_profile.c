// SPDX-License-Identifier: Apache-2.0
// C calls and lines up to CPython 3.11: the profile and trace functions, which are set per thread.
// Each thread gets its own at its next Python call (trace_eval.c), so that threads which exist
// already are seen, too. Python calls still come from there, and the trace function is set only
// while a function runs whose lines are wanted.
//
// A thread has one of each, and the program may have its own there (coverage, a debugger,
// cProfile), or set one later. Ours takes its place, with its object, so that sys.gettrace() says
// what it said, and passes every event on to it.
#include "agent/py_api.h"
#include "agent/trace.h"
#include "agent/trace_filter.h"

enum { PROFILE, TRACE };
enum { TRACE_LINE = 2, TRACE_C_CALL = 4, TRACE_C_EXCEPTION = 5, TRACE_C_RETURN = 6 };

// Where a thread state has them: behind its head the profile and the trace function, then the
// object of each.
struct state_functions {
	py_trace_function functions[2];
	struct py_object *objects[2];
};
#define STATE_HEAD_38 56 // 3.8 to 3.10
#define STATE_HEAD_311 64

static struct state_functions *state_functions(void)
{
	return (void *)((uint8_t *)PyThreadState_Get() +
			(fm_sig.python.row.minor <= 10 ? STATE_HEAD_38 : STATE_HEAD_311));
}

static int on_profile(struct py_object *self, struct py_object *frame, int what, struct py_object *arg);
static int on_trace(struct py_object *self, struct py_object *frame, int what, struct py_object *arg);
static const py_trace_function ours[2] = { [PROFILE] = on_profile, [TRACE] = on_trace };
// What ours is there instead of, the latest first. The thread's own: it has to be given back when the trace, and all
// that it kept, is gone.
//
// By the object that it is called with: a tool may note what it finds, which is ours, and put that back when it is done
// (line_profiler does), or call it. Then ours stands for what was there before that tool, with the object of that.
#define N_THEIRS 4
static __thread struct their_function {
	struct py_object *object;
	py_trace_function function;
} theirs[2][N_THEIRS] __attribute__((tls_model("initial-exec")));

static py_trace_function function_for(unsigned which, const struct py_object *object)
{
	for (unsigned i = 0; i < N_THEIRS; i++)
		if (theirs[which][i].object == object)
			return theirs[which][i].function;
	return NULL;
}

// Of those that have the same object there is one.
static void note_function(unsigned which, struct py_object *object, py_trace_function function)
{
	struct their_function *all = theirs[which];
	unsigned last = 0;
	while (last < N_THEIRS - 1 && all[last].object != object)
		last++;
	for (; last > 0; last--)
		all[last] = all[last - 1];
	all[0] = (struct their_function){ object, function };
}

// A thread takes its function off by itself: nobody else may.
static inline bool is_over(const struct fm_trace_thread *t)
{
	return !t || t->armed != atomic_load_explicit(&fm_trace.calls_generation, memory_order_relaxed);
}

// An exception may be on its way (thrown into a generator), and an audit hook of the program may
// refuse with one of its own.
static void set_function(struct fm_trace_thread *t, unsigned which, py_trace_function function)
{
	struct py_object *type, *value, *traceback, *object = state_functions()->objects[which];
	PyErr_Fetch(&type, &value, &traceback);
	if (object)
		Py_IncRef(object); // Python lets go of it before it takes it again
	if (t)
		t->is_setting = true;
	(which == TRACE ? PyEval_SetTrace : PyEval_SetProfile)(function, object);
	if (t)
		t->is_setting = false;
	if (object)
		Py_DecRef(object);
	PyErr_Clear();
	PyErr_Restore(type, value, traceback);
}

// Puts ours in the place of what is there.
static void take_place(struct fm_trace_thread *t, unsigned which)
{
	py_trace_function there = state_functions()->functions[which];
	if (there == ours[which] || t->is_refused)
		return;
	note_function(which, state_functions()->objects[which], there);
	set_function(t, which, ours[which]);
	t->is_refused = state_functions()->functions[which] != ours[which]; // once is enough
}

static void give_back(struct fm_trace_thread *t, unsigned which)
{
	if (state_functions()->functions[which] == ours[which])
		set_function(t, which, function_for(which, state_functions()->objects[which]));
}

static int pass_on(unsigned which, struct py_object *self, struct py_object *frame, int what, struct py_object *arg)
{
	py_trace_function function = function_for(which, self);
	return function ? function(self, frame, what, arg) : 0;
}

// By a tool that ours has told of it, or would have.
static bool is_passed_on(unsigned which, const struct py_object *self)
{
	return state_functions()->objects[which] != self;
}

static int on_profile(struct py_object *self, struct py_object *frame, int what, struct py_object *arg)
{
	uint64_t stamp = fm_trace_stamp();
	struct fm_trace_thread *t = fm_trace_self();
	uint32_t id = 0;
	if (FM_UNLIKELY(is_passed_on(PROFILE, self)))
		return pass_on(PROFILE, self, frame, what, arg);
	if (FM_UNLIKELY(is_over(t)))
		give_back(t, PROFILE);
	else if (what >= TRACE_C_CALL && what <= TRACE_C_RETURN && arg)
		id = fm_trace_function(t, arg);
	if (id && what != TRACE_C_CALL)
		fm_trace_push(t, stamp, FM_WIRE_END, id);
	int ret = pass_on(PROFILE, self, frame, what, arg);
	if (id && what == TRACE_C_CALL)
		fm_trace_push_now(t, FM_WIRE_BEGIN, id);
	return ret;
}

static int on_trace(struct py_object *self, struct py_object *frame, int what, struct py_object *arg)
{
	struct fm_trace_thread *t = fm_trace_self();
	if (FM_UNLIKELY(is_passed_on(TRACE, self)))
		return pass_on(TRACE, self, frame, what, arg);
	if (FM_UNLIKELY(is_over(t))) {
		if (t)
			t->has_lines = false;
		give_back(t, TRACE);
	} else if (what == TRACE_LINE && t->has_lines) {
		fm_trace_push_now(t, FM_WIRE_LINE, (uint32_t)PyFrame_GetLineNumber(frame));
	}
	return pass_on(TRACE, self, frame, what, arg);
}

bool fm_trace_profile_set_lines(struct fm_trace_thread *t, bool has_lines)
{
	bool before = t->has_lines;
	t->has_lines = has_lines;
	if (has_lines)
		take_place(t, TRACE);
	else if (before)
		give_back(t, TRACE);
	return before;
}

void fm_trace_profile_arm(struct fm_trace_thread *t)
{
	bool is_new = t->armed != fm_trace.generation;
	t->armed = fm_trace.generation; // first: setting a function may run Python code
	t->is_refused = t->is_refused && !is_new;
	if (fm_trace.flags & FM_TRACE_C_CALLS)
		take_place(t, PROFILE);
	// A function that was not chosen may run first; without a choice all lines are wanted, and
	// nothing is set back and forth.
	if (is_new)
		fm_trace_profile_set_lines(t, fm_trace.flags & FM_TRACE_LINES && !fm_trace_filter_has_choice());
}
