// SPDX-License-Identifier: Apache-2.0
// Calls from CPython 3.12 on, where trace_eval.c does not see them all: by sys.monitoring. The
// interpreter calls back at the start and end of every function, on all threads. The callbacks are
// C functions of our module (fast-call convention); they get the code object, no frame is made.
//
// Tool 3, or 4 when that is taken: debuggers, coverage tools and cProfile have 0, 1 and 2 to
// themselves.
#include "agent/py_api.h"
#include "agent/trace.h"

#define FIRST_TOOL 3
#define LAST_TOOL 4

static int tool = -1;
static struct py_object *disable; // sys.monitoring.DISABLE

// None is immortal in all versions that have sys.monitoring.
#define NONE (&_Py_NoneStruct)

// A callback is an object of a type of our own whose vectorcall is the C function itself: what a
// built-in function would check and unpack at each event is left out, some 4 ns of 23. Only the
// interpreter gets to see them, so arguments are what they should be.
#define CALLBACK_ARGUMENTS struct py_object *self, struct py_object *const *args, size_t n, struct py_object *names
#define IGNORE_REST (void)self, (void)n, (void)names

struct callback {
	struct py_object head;
	py_vectorcall_function vectorcall;
};

// The answer for a place that is of no interest: the interpreter asks there no more, until
// restart_events().
static inline struct py_object *never_again(void)
{
	Py_IncRef(disable);
	return disable;
}

// Nobody reads any more (trace.c): no place is of interest.
static inline bool is_left(void)
{
	return atomic_load_explicit(&fm_trace.is_left, memory_order_relaxed);
}

// The stamp is by the cycle counter, which another clock may have to replace.
static __attribute__((noinline)) struct py_object *push(struct py_object *code_object, uint64_t stamp, uint32_t kind,
							bool can_disable)
{
	uint32_t generation;
	struct fm_trace_thread *t = fm_trace_self_for_calls(&generation);
	if (FM_UNLIKELY(!t))
		return can_disable && is_left() ? never_again() : NONE;
	uint32_t id = fm_trace_code(t, (uintptr_t)code_object)->id;
	if (FM_UNLIKELY(!id))
		return can_disable ? never_again() : NONE;
	// What begins is stamped last and what ends first: our own time is then the caller's, not
	// the function's.
	fm_trace_push(t, kind == FM_WIRE_LEAVE && fm_trace.has_cycles ? stamp : fm_trace_stamp(), kind, id);
	return NONE;
}

// The ring, where an event of that code can be written to it with no more ado; else NULL, and
// push() does it. As on_eval() in trace_eval.c.
static FM_ALWAYS_INLINE struct fm_trace_thread *ready_ring(struct py_object *code_object, uint32_t *ret_id,
							   uint64_t *ret_head)
{
	struct fm_trace_thread *t = fm_trace_own.thread;
	if (FM_UNLIKELY(fm_trace_own.generation !=
			atomic_load_explicit(&fm_trace.plain_generation, memory_order_relaxed)))
		return NULL;
	const struct fm_trace_code *code = fm_trace_code_place(t, (uintptr_t)code_object);
	*ret_id = code->id;
	bool is_ready = fm_trace_code_is_met(code, (uintptr_t)code_object, fm_trace_code_layout()) && code->id &&
			fm_trace_has_room(t, ret_head);
	return FM_LIKELY(is_ready) ? t : NULL;
}

static struct py_object *on_start(CALLBACK_ARGUMENTS)
{
	IGNORE_REST;
	uint32_t id;
	uint64_t head;
	struct fm_trace_thread *t = ready_ring(args[0], &id, &head);
	if (FM_UNLIKELY(!t))
		return push(args[0], 0, FM_WIRE_ENTER, true);
	fm_trace_write(t, head, fm_cycles(), FM_WIRE_ENTER, id);
	return NONE;
}

static struct py_object *on_resume(CALLBACK_ARGUMENTS)
{
	IGNORE_REST;
	return push(args[0], 0, FM_WIRE_RESUME, true);
}

static struct py_object *on_throw(CALLBACK_ARGUMENTS)
{
	IGNORE_REST;
	return push(args[0], 0, FM_WIRE_RESUME, false);
}

static struct py_object *on_leave(CALLBACK_ARGUMENTS)
{
	IGNORE_REST;
	uint64_t stamp = fm_cycles(), head;
	uint32_t id;
	struct fm_trace_thread *t = ready_ring(args[0], &id, &head);
	if (FM_UNLIKELY(!t))
		return push(args[0], stamp, FM_WIRE_LEAVE, true);
	fm_trace_write(t, head, stamp, FM_WIRE_LEAVE, id);
	return NONE;
}

static struct py_object *on_unwind(CALLBACK_ARGUMENTS)
{
	IGNORE_REST;
	return push(args[0], fm_cycles(), FM_WIRE_LEAVE, false);
}

// (code, offset, callable, first argument). It comes before every call; those of Python functions
// have events of their own, and are not followed by a C_RETURN.
static struct py_object *on_call(CALLBACK_ARGUMENTS)
{
	IGNORE_REST;
	struct fm_trace_thread *t = fm_trace_self();
	uint32_t id = t ? fm_trace_function(t, args[2]) : 0;
	if (id)
		fm_trace_push_now(t, FM_WIRE_BEGIN, id);
	return !t && is_left() ? never_again() : NONE;
}

static struct py_object *on_c_return(CALLBACK_ARGUMENTS)
{
	IGNORE_REST;
	uint64_t stamp = fm_trace_stamp();
	struct fm_trace_thread *t = fm_trace_self();
	uint32_t id = t ? fm_trace_function(t, args[2]) : 0;
	if (id)
		fm_trace_push(t, stamp, FM_WIRE_END, id);
	return NONE;
}

// (code, line)
static struct py_object *on_line(CALLBACK_ARGUMENTS)
{
	IGNORE_REST;
	struct fm_trace_thread *t = fm_trace_self();
	if (!t)
		return is_left() ? never_again() : NONE;
	if (!fm_trace_code(t, (uintptr_t)args[0])->has_lines)
		return never_again();
	fm_trace_push_now(t, FM_WIRE_LINE, (uint32_t)PyLong_AsLong(args[1]));
	return NONE;
}

static const struct event {
	const char *name;
	py_vectorcall_function callback;
	uint32_t needs;  // enum fm_trace_flags; 0 = always
	bool is_implied; // comes with CALL, cannot be asked for
} events[] = {
	{ "PY_START", on_start, 0, false },
	{ "PY_RESUME", on_resume, 0, false },
	{ "PY_THROW", on_throw, 0, false },
	{ "PY_RETURN", on_leave, 0, false },
	{ "PY_YIELD", on_leave, 0, false },
	{ "PY_UNWIND", on_unwind, 0, false },
	{ "CALL", on_call, FM_TRACE_C_CALLS, false },
	{ "C_RETURN", on_c_return, FM_TRACE_C_CALLS, true },
	{ "C_RAISE", on_c_return, FM_TRACE_C_CALLS, true },
	{ "LINE", on_line, FM_TRACE_LINES, false },
};

static struct py_object *callback_type;

static bool make_callback_type(void)
{
	static struct py_member_def members[] = {
		{ "__vectorcalloffset__", PY_MEMBER_SSIZE, offsetof(struct callback, vectorcall), PY_MEMBER_READONLY,
		  NULL },
		{ NULL, 0, 0, 0, NULL },
	};
	static struct py_type_slot slots[] = { { PY_TP_MEMBERS, members }, { PY_TP_CALL, NULL }, { 0, NULL } };
	static struct py_type_spec spec = { "fathom._agent.Callback", sizeof(struct callback), 0, PY_HAVE_VECTORCALL,
					    slots };
	slots[1].value = (void *)PyVectorcall_Call;
	if (!callback_type)
		callback_type = PyType_FromSpec(&spec);
	return callback_type != NULL;
}

static struct py_object *monitoring(void)
{
	return PySys_GetObject ? PySys_GetObject("monitoring") : NULL;
}

static bool register_event(struct py_object *sys_monitoring, struct py_object *names, const struct event *event,
			   long *set)
{
	struct py_object *number = PyObject_GetAttrString(names, event->name);
	struct callback *callback = (struct callback *)PyType_GenericAlloc(callback_type, 0);
	if (callback)
		callback->vectorcall = event->callback;
	bool is_done =
		number && callback &&
		py_succeeds(PyObject_CallMethod(sys_monitoring, "register_callback", "iOO", tool, number, callback));
	if (is_done && !event->is_implied)
		*set |= PyLong_AsLong(number);
	if (number)
		Py_DecRef(number);
	if (callback)
		Py_DecRef(&callback->head);
	PyErr_Clear();
	return is_done;
}

const char *fm_trace_monitor_start(void)
{
	struct py_object *sys_monitoring = monitoring();
	if (!sys_monitoring)
		return "this Python has no sys.monitoring";
	for (tool = FIRST_TOOL; tool <= LAST_TOOL; tool++)
		if (py_succeeds(PyObject_CallMethod(sys_monitoring, "use_tool_id", "is", tool, "fathom")))
			break;
	if (tool > LAST_TOOL) {
		tool = -1;
		return "other tools hold the ids 3 and 4 of sys.monitoring; end one of them first";
	}
	struct py_object *names = PyObject_GetAttrString(sys_monitoring, "events");
	long set = 0;
	bool is_done = names != NULL && make_callback_type();
	for (unsigned i = 0; is_done && i < FM_ARRAY_LEN(events); i++)
		if ((events[i].needs & fm_trace.flags) == events[i].needs)
			is_done = register_event(sys_monitoring, names, &events[i], &set);
	if (names)
		Py_DecRef(names);
	if (!disable)
		disable = PyObject_GetAttrString(sys_monitoring, "DISABLE");
	is_done = is_done && disable;
	if (is_done && fm_trace.is_filter_new) // what an earlier trace did not want may be wanted now
		is_done = py_succeeds(PyObject_CallMethod(sys_monitoring, "restart_events", NULL));
	fm_trace.is_filter_new = false;
	is_done = is_done && py_succeeds(PyObject_CallMethod(sys_monitoring, "set_events", "il", tool, set));
	if (is_done) {
		fm_trace.door = FM_TRACE_BY_MONITORING;
		return NULL;
	}
	PyErr_Clear();
	fm_trace_monitor_stop();
	return "sys.monitoring refused the events of a trace";
}

void fm_trace_monitor_forget(void)
{
	callback_type = disable = NULL;
	tool = -1;
}

void fm_trace_monitor_stop(void)
{
	struct py_object *sys_monitoring = monitoring();
	if (tool < 0 || !sys_monitoring)
		return;
	// 3.12 and 3.13 leave events on when the id is given back.
	py_succeeds(PyObject_CallMethod(sys_monitoring, "set_events", "ii", tool, 0));
	py_succeeds(PyObject_CallMethod(sys_monitoring, "free_tool_id", "i", tool));
	tool = -1;
}
