// C calls and lines up to CPython 3.11: the profile and trace functions, which are set per thread. Each thread gets its own at
// its next Python call (trace_eval.c), so that threads which exist already are seen, too. Python calls still come from there.
#include "agent/py_api.h"
#include "agent/trace.h"

enum { TRACE_LINE = 2, TRACE_C_CALL = 4, TRACE_C_EXCEPTION = 5, TRACE_C_RETURN = 6 };

// A thread takes its function off by itself: nobody else may.
static bool is_over(void)
{
	return !atomic_load_explicit(&fm_trace.is_on, memory_order_relaxed);
}

static int on_profile(struct py_object *self, struct py_object *frame, int what, struct py_object *arg)
{
	(void)self;
	(void)frame;
	uint64_t stamp = fm_trace_stamp();
	if (FM_UNLIKELY(is_over())) {
		PyEval_SetProfile(NULL, NULL);
		return 0;
	}
	struct fm_trace_thread *t = what >= TRACE_C_CALL && what <= TRACE_C_RETURN && arg ? fm_trace_self() : NULL;
	uint32_t id = t ? fm_trace_function(t, arg) : 0;
	if (!id)
		return 0;
	if (what == TRACE_C_CALL)
		fm_trace_enter(t, FM_WIRE_BEGIN, id);
	else
		fm_trace_leave(t, stamp, FM_WIRE_END, id);
	return 0;
}

static int on_trace(struct py_object *self, struct py_object *frame, int what, struct py_object *arg)
{
	(void)self;
	(void)arg;
	if (FM_UNLIKELY(is_over())) {
		PyEval_SetTrace(NULL, NULL);
		return 0;
	}
	struct fm_trace_thread *t = what == TRACE_LINE ? fm_trace_self() : NULL;
	if (t)
		fm_trace_push(t, fm_trace_stamp(), FM_WIRE_LINE, (uint32_t)PyFrame_GetLineNumber(frame));
	return 0;
}

void fm_trace_profile_arm(struct fm_trace_thread *t)
{
	t->armed = fm_trace.generation; // first: setting a function may run Python code
	if (fm_trace.flags & FM_TRACE_C_CALLS)
		PyEval_SetProfile(on_profile, NULL);
	if (fm_trace.flags & FM_TRACE_LINES)
		PyEval_SetTrace(on_trace, NULL);
}
