// SPDX-License-Identifier: Apache-2.0
// The agent as a Python module, `fathom._agent`: the same file that is preloaded can be imported,
// by every CPython.
//
// No Python.h: what the stable ABI promises of a module definition is spelt out here and in
// py_api.h.
#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/agent.h"
#include "agent/py_api.h"
#include "agent/trace.h"
#include "agent/trace_filter.h"
#include "agent/zone.h"
#include "sigsafe/base/quiet.h"
#include "sigsafe/base/state.h"
#include "sigsafe/tick/region.h"

struct py_module_slot {
	int slot;
	void *value;
};

// PyModuleDef of the stable ABI (3.5 and later), behind its object head.
struct py_module_def {
	struct py_object *(*init)(void);
	intptr_t index;
	struct py_object *copy;
	const char *name;
	const char *doc;
	intptr_t size;
	struct py_method_def *methods;
	struct py_module_slot *slots;
	void *traverse, *clear, *free;
};

extern struct py_object *PyModuleDef_Init(uintptr_t *def) __attribute__((weak));

static bool is_joined(void)
{
	return fm_sig.header != NULL && !atomic_load(&fm_sig.counts->is_over) &&
	       atomic_load(&fm_sig_quiet.state) != FM_SIG_GONE;
}

static struct py_object *is_active(struct py_object *self, struct py_object *unused)
{
	(void)self;
	(void)unused;
	return PyBool_FromLong(is_joined());
}

static struct py_object *can_trace(struct py_object *self, struct py_object *unused)
{
	(void)self;
	(void)unused;
	return PyBool_FromLong(is_joined() && atomic_load(&fm_trace.is_recording));
}

static struct py_object *is_tracing(struct py_object *self, struct py_object *unused)
{
	(void)self;
	(void)unused;
	return PyBool_FromLong(atomic_load(&fm_trace.is_on));
}

static struct py_object *start(struct py_object *self, struct py_object *path_object)
{
	(void)self;
	intptr_t len;
	const char *path = PyUnicode_AsUTF8AndSize(path_object, &len);
	if (!path)
		return NULL;
	// One at a time, which only a GIL would see to by itself.
	static _Atomic bool is_starting;
	if (atomic_exchange(&is_starting, true))
		return PyErr_Format(PyExc_RuntimeError, "another thread is just beginning to profile this process");
	const char *problem = fm_agent_late_start(path);
	atomic_store(&is_starting, false);
	return problem ? PyErr_Format(PyExc_RuntimeError, "%s", problem) : py_none();
}

static bool stop_calls(void)
{
	if (atomic_exchange(&fm_trace.is_left, 0)) {
		fm_trace_monitor_stop();
		fm_trace_eval_stop();
	}
	if (!atomic_load(&fm_trace.is_on))
		return false;
	// Its own frames first: what comes after this stamp is not part of the trace.
	struct fm_trace_thread *t = fm_trace_self();
	fm_trace_renew(false);
	if (t)
		fm_trace_push_now(t, FM_WIRE_TRACE_OFF, 0);
	fm_trace_monitor_stop();
	fm_trace_eval_stop();
	return true;
}

static struct py_object *stop(struct py_object *self, struct py_object *unused)
{
	(void)self;
	(void)unused;
	stop_calls();
	fm_agent_late_stop();
	return py_none();
}

static struct py_object *leave(struct py_object *self, struct py_object *unused)
{
	(void)self;
	(void)unused;
	fm_agent_late_leave();
	return py_none();
}

static struct py_object *trace_start(struct py_object *self, struct py_object *flags_object)
{
	(void)self;
	long flags = PyLong_AsLong(flags_object);
	if (flags == -1 && PyErr_Occurred())
		return NULL;
	if (!is_joined() || !atomic_load(&fm_trace.is_recording))
		return PyErr_Format(PyExc_RuntimeError,
				    "this process is not being profiled, so there is nowhere to trace to");
	if (!fm_sig.has_python)
		return PyErr_Format(PyExc_RuntimeError, "this Python is not known to Fathom");
	if (atomic_load(&fm_trace.is_on))
		return PyErr_Format(PyExc_RuntimeError, "calls are being traced already");
	stop_calls(); // hooks of a trace that was left alone
	uint32_t new_flags = (uint32_t)flags | (fm_trace.has_cycles ? 0 : FM_TRACE_SLOW_CLOCK);
	if (fm_trace.flags != new_flags)
		fm_trace_forget_codes();
	fm_trace.flags = new_flags;
	bool is_hooked = fm_trace_eval_is_for(new_flags);
	const char *problem = is_hooked ? fm_trace_eval_start() : fm_trace_monitor_start();
	if (problem)
		return PyErr_Format(PyExc_RuntimeError, "%s", problem);
	fm_trace.n_starts++;
	fm_trace_renew(true);
	struct fm_trace_thread *t = fm_trace_self(); // tells of it
	if (t && flags && is_hooked)
		fm_trace_profile_arm(t);
	return py_none();
}

static struct py_object *trace_stop(struct py_object *self, struct py_object *unused)
{
	(void)self;
	(void)unused;
	return PyBool_FromLong(stop_calls());
}

static struct py_object *follow(struct py_object *self, struct py_object *folder_object)
{
	(void)self;
	intptr_t len;
	const char *folder = PyUnicode_AsUTF8AndSize(folder_object, &len);
	if (!folder)
		return NULL;
	return PyBool_FromLong(fm_agent_exec_follow(folder));
}

static struct py_object *set_outside(struct py_object *self, struct py_object *is_outside)
{
	(void)self;
	long value = PyLong_AsLong(is_outside);
	if (value == -1 && PyErr_Occurred())
		return NULL;
	bool was_outside = fm_sig_region_is_outside();
	fm_sig_region_set(value != 0);
	return PyBool_FromLong(was_outside);
}

static struct py_method_def methods[] = {
	{ "is_active", is_active, METH_NOARGS, "True while this process is being profiled by fathom." },
	{ "can_trace", can_trace, METH_NOARGS, "True while zones are recorded and calls can be." },
	{ "is_tracing", is_tracing, METH_NOARGS, "True between trace_start() and trace_stop()." },
	{ "start", start, METH_O, "Joins the capture whose shared memory lies at this path." },
	{ "stop", stop, METH_NOARGS, "Takes no more part in the capture." },
	{ "leave", leave, METH_NOARGS, "Gives the program its signals back, when the collector has ended." },
	{ "follow", follow, METH_O,
	  "Pythons that this program starts read these start-up files, whatever environment they get." },
	{ "trace_start", trace_start, METH_O, "Records every call from now on; 1: also of C functions, 2: and lines." },
	{ "trace_stop", trace_stop, METH_NOARGS, "Ends trace_start(); False when no trace ran." },
	{ "trace_filter", (py_function)(void *)fm_trace_filter_set, METH_FASTCALL,
	  "What to trace by file: '+FILE' only these, '-FILE' not these, '@FILE:NAME' lines of these functions only." },
	{ "set_outside", set_outside, METH_O,
	  "While this is true no samples are taken: the program is in no region. Returns what was before." },
	{ "zone", fm_zone_get, METH_O, "The zone of that name: a context manager and decorator." },
	{ "mark", fm_zone_mark, METH_O, "Marks this moment with a text." },
	{ "counter", (py_function)(void *)fm_zone_counter, METH_FASTCALL, "Notes the value of a counter." },
	{ "use_zone_factory", fm_zone_use_factory, METH_O, NULL },
	{ NULL, NULL, 0, NULL },
};

static int set_up(struct py_object *module)
{
	(void)module;
	return fm_zone_set_up();
}

enum { PY_MOD_EXEC = 2, PY_MOD_GIL = 4 };
#define PY_MOD_GIL_NOT_USED ((void *)1)

// A module that does not say that it can do without makes free-threaded builds switch the GIL on.
// Older ones refuse what they do not know.
static struct py_module_slot slots[] = { { PY_MOD_EXEC, set_up }, { 0, NULL }, { 0, NULL } };

// The head ends where the rest begins: a build with a shorter one is given the second half of it.
// PyModuleDef_Init fills it in.
static struct {
	uintptr_t head[4];
	struct py_module_def rest;
} definition = {
	.rest = {
		.name = "_agent",
		.doc = "Fathom's agent, the part that runs inside a profiled program.",
		.methods = methods,
		.slots = slots,
	},
};
static_assert(offsetof(struct py_module_def, name) == 24 && sizeof(definition) == 32 + 88, "no gap behind the head");

__attribute__((visibility("default"))) struct py_object *PyInit__agent(void);
__attribute__((visibility("default"))) struct py_object *PyInit__agent(void)
{
	if (!PyModuleDef_Init)
		return NULL;
	if (!py_is_free_threaded())
		return PyModuleDef_Init(definition.head + 2);
	slots[1] = (struct py_module_slot){ PY_MOD_GIL, PY_MOD_GIL_NOT_USED };
	definition.head[1] = (uintptr_t)UINT32_MAX << 32; // immortal, as every static object there
	return PyModuleDef_Init(definition.head);
}
