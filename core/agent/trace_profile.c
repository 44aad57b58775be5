// C calls and lines up to CPython 3.11: the profile and trace functions, which are set per thread. Each thread gets its own at
// its next Python call (trace_eval.c), so that threads which exist already are seen, too. Python calls still come from there, and the
// trace function is set only while a function runs whose lines are wanted.
#include "agent/py_api.h"
#include "agent/trace.h"
#include "agent/trace_filter.h"

enum { TRACE_LINE = 2, TRACE_C_CALL = 4, TRACE_C_EXCEPTION = 5, TRACE_C_RETURN = 6 };

// A thread takes its function off by itself: nobody else may.
static inline bool is_over(const struct fm_trace_thread *t)
{
	return !t || t->armed != atomic_load_explicit(&fm_trace.calls_generation, memory_order_relaxed);
}

// An exception may be on its way (thrown into a generator), and an audit hook of the program may refuse with one of its own.
static void set_function(struct fm_trace_thread *t, void (*set)(py_trace_function, struct py_object *),
			 py_trace_function function)
{
	struct py_object *type, *value, *traceback;
	PyErr_Fetch(&type, &value, &traceback);
	if (t)
		t->is_setting = true;
	set(function, NULL);
	if (t)
		t->is_setting = false;
	PyErr_Clear();
	PyErr_Restore(type, value, traceback);
}

static int on_profile(struct py_object *self, struct py_object *frame, int what, struct py_object *arg)
{
	(void)self;
	(void)frame;
	uint64_t stamp = fm_trace_stamp();
	struct fm_trace_thread *t = fm_trace_self();
	if (FM_UNLIKELY(is_over(t))) {
		set_function(t, PyEval_SetProfile, NULL);
		return 0;
	}
	uint32_t id = what >= TRACE_C_CALL && what <= TRACE_C_RETURN && arg ? fm_trace_function(t, arg) : 0;
	if (!id)
		return 0;
	if (what == TRACE_C_CALL)
		fm_trace_push_now(t, FM_WIRE_BEGIN, id);
	else
		fm_trace_push(t, stamp, FM_WIRE_END, id);
	return 0;
}

static int on_trace(struct py_object *self, struct py_object *frame, int what, struct py_object *arg)
{
	(void)self;
	(void)arg;
	struct fm_trace_thread *t = fm_trace_self();
	if (FM_UNLIKELY(is_over(t))) {
		if (t)
			t->has_lines = false;
		set_function(t, PyEval_SetTrace, NULL);
		return 0;
	}
	if (what == TRACE_LINE && t->has_lines)
		fm_trace_push_now(t, FM_WIRE_LINE, (uint32_t)PyFrame_GetLineNumber(frame));
	return 0;
}

bool fm_trace_profile_set_lines(struct fm_trace_thread *t, bool has_lines)
{
	bool before = t->has_lines;
	if (before != has_lines) {
		t->has_lines = has_lines;
		set_function(t, PyEval_SetTrace, has_lines ? on_trace : NULL);
	}
	return before;
}

void fm_trace_profile_arm(struct fm_trace_thread *t)
{
	t->armed = fm_trace.generation; // first: setting a function may run Python code
	// A function that was not chosen may run first; without a choice all lines are wanted, and nothing is set back and forth.
	fm_trace_profile_set_lines(t, fm_trace.flags & FM_TRACE_LINES && !fm_trace_filter_has_choice());
	if (fm_trace.flags & FM_TRACE_C_CALLS)
		set_function(t, PyEval_SetProfile, on_profile);
}
