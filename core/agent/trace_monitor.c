// Calls from CPython 3.12 on, by sys.monitoring: the interpreter calls back at the start and end of every function, on all
// threads. The callbacks are C functions of our module (fast-call convention); they get the code object, no frame is made.
//
// Tool 3, or 4 when that is taken: debuggers, coverage tools and cProfile have 0, 1 and 2 to themselves.
#include "agent/py_api.h"
#include "agent/trace.h"
#include "agent/trace_monitor.h"

#define FIRST_TOOL 3
#define LAST_TOOL 4

static int tool = -1;

// None is immortal in all versions that have sys.monitoring.
#define NONE (&_Py_NoneStruct)

static inline struct py_object *enter(struct py_object *code_object, uint32_t kind)
{
	struct fm_trace_thread *t = fm_trace_self();
	if (FM_LIKELY(t != NULL)) {
		uint32_t id = fm_trace_code(t, (uintptr_t)code_object)->id;
		if (FM_LIKELY(id != 0))
			fm_trace_enter(t, kind, id);
	}
	return NONE;
}

static inline struct py_object *leave(struct py_object *code_object)
{
	uint64_t stamp = fm_trace_stamp();
	struct fm_trace_thread *t = fm_trace_self();
	if (FM_LIKELY(t != NULL)) {
		uint32_t id = fm_trace_code(t, (uintptr_t)code_object)->id;
		if (FM_LIKELY(id != 0))
			fm_trace_leave(t, stamp, FM_WIRE_LEAVE, id);
	}
	return NONE;
}

static struct py_object *on_start(struct py_object *self, struct py_object *const *args, intptr_t n)
{
	(void)self;
	return n > 0 ? enter(args[0], FM_WIRE_ENTER) : NONE;
}

static struct py_object *on_resume(struct py_object *self, struct py_object *const *args, intptr_t n)
{
	(void)self;
	return n > 0 ? enter(args[0], FM_WIRE_RESUME) : NONE;
}

static struct py_object *on_leave(struct py_object *self, struct py_object *const *args, intptr_t n)
{
	(void)self;
	return n > 0 ? leave(args[0]) : NONE;
}

// (code, offset, callable, first argument). It comes before every call; those of Python functions have events of their own,
// and are not followed by a C_RETURN.
static struct py_object *on_call(struct py_object *self, struct py_object *const *args, intptr_t n)
{
	(void)self;
	if (n < 3)
		return NONE;
	struct fm_trace_thread *t = fm_trace_self();
	uint32_t id = t ? fm_trace_function(t, args[2]) : 0;
	if (id)
		fm_trace_enter(t, FM_WIRE_BEGIN, id);
	return NONE;
}

static struct py_object *on_c_return(struct py_object *self, struct py_object *const *args, intptr_t n)
{
	(void)self;
	if (n < 3)
		return NONE;
	uint64_t stamp = fm_trace_stamp();
	struct fm_trace_thread *t = fm_trace_self();
	uint32_t id = t ? fm_trace_function(t, args[2]) : 0;
	if (id)
		fm_trace_leave(t, stamp, FM_WIRE_END, id);
	return NONE;
}

// (code, line)
static struct py_object *on_line(struct py_object *self, struct py_object *const *args, intptr_t n)
{
	(void)self;
	struct fm_trace_thread *t = n >= 2 ? fm_trace_self() : NULL;
	if (t && fm_trace_code(t, (uintptr_t)args[0])->id)
		fm_trace_push(t, fm_trace_stamp(), FM_WIRE_LINE, (uint32_t)PyLong_AsLong(args[1]));
	return NONE;
}

#define CALLBACK(name, function)                                           \
	{                                                                  \
		name, (py_function)(void *)(function), METH_FASTCALL, NULL \
	}
const struct py_method_def fm_trace_monitor_methods[FM_TRACE_MONITOR_METHODS] = {
	CALLBACK("_on_start", on_start), CALLBACK("_on_resume", on_resume),     CALLBACK("_on_leave", on_leave),
	CALLBACK("_on_call", on_call),   CALLBACK("_on_c_return", on_c_return), CALLBACK("_on_line", on_line),
};

static const struct event {
	const char *name, *callback;
	uint32_t needs;  // enum fm_trace_flags; 0 = always
	bool is_implied; // comes with CALL, cannot be asked for
} events[] = {
	{ "PY_START", "_on_start", 0, false },
	{ "PY_RESUME", "_on_resume", 0, false },
	{ "PY_THROW", "_on_resume", 0, false },
	{ "PY_RETURN", "_on_leave", 0, false },
	{ "PY_YIELD", "_on_leave", 0, false },
	{ "PY_UNWIND", "_on_leave", 0, false },
	{ "CALL", "_on_call", FM_TRACE_C_CALLS, false },
	{ "C_RETURN", "_on_c_return", FM_TRACE_C_CALLS, true },
	{ "C_RAISE", "_on_c_return", FM_TRACE_C_CALLS, true },
	{ "LINE", "_on_line", FM_TRACE_LINES, false },
};

// True when the call went well; an exception is swallowed.
static bool succeeds(struct py_object *ret)
{
	if (ret)
		Py_DecRef(ret);
	else
		PyErr_Clear();
	return ret != NULL;
}

static struct py_object *monitoring(void)
{
	return PySys_GetObject ? PySys_GetObject("monitoring") : NULL;
}

static bool register_event(struct py_object *sys_monitoring, struct py_object *names, struct py_object *module,
			   const struct event *event, long *set)
{
	struct py_object *number = PyObject_GetAttrString(names, event->name);
	struct py_object *callback = PyObject_GetAttrString(module, event->callback);
	bool is_done =
		number && callback &&
		succeeds(PyObject_CallMethod(sys_monitoring, "register_callback", "iOO", tool, number, callback));
	if (is_done && !event->is_implied)
		*set |= PyLong_AsLong(number);
	if (number)
		Py_DecRef(number);
	if (callback)
		Py_DecRef(callback);
	PyErr_Clear();
	return is_done;
}

const char *fm_trace_monitor_start(struct py_object *module)
{
	struct py_object *sys_monitoring = monitoring();
	if (!sys_monitoring)
		return "this Python has no sys.monitoring";
	for (tool = FIRST_TOOL; tool <= LAST_TOOL; tool++)
		if (succeeds(PyObject_CallMethod(sys_monitoring, "use_tool_id", "is", tool, "fathom")))
			break;
	if (tool > LAST_TOOL) {
		tool = -1;
		return "other tools hold the ids 3 and 4 of sys.monitoring; end one of them first";
	}
	struct py_object *names = PyObject_GetAttrString(sys_monitoring, "events");
	long set = 0;
	bool is_done = names != NULL;
	for (unsigned i = 0; is_done && i < FM_ARRAY_LEN(events); i++)
		if ((events[i].needs & fm_trace.flags) == events[i].needs)
			is_done = register_event(sys_monitoring, names, module, &events[i], &set);
	if (names)
		Py_DecRef(names);
	is_done = is_done && succeeds(PyObject_CallMethod(sys_monitoring, "set_events", "il", tool, set));
	if (is_done)
		return NULL;
	PyErr_Clear();
	fm_trace_monitor_stop();
	return "sys.monitoring refused the events of a trace";
}

void fm_trace_monitor_stop(void)
{
	struct py_object *sys_monitoring = monitoring();
	if (tool < 0 || !sys_monitoring)
		return;
	// 3.12 and 3.13 leave events on when the id is given back.
	succeeds(PyObject_CallMethod(sys_monitoring, "set_events", "ii", tool, 0));
	succeeds(PyObject_CallMethod(sys_monitoring, "free_tool_id", "i", tool));
	tool = -1;
}
