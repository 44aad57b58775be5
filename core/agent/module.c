// The agent as a Python module, `fathom._agent`: the same file that is preloaded can be imported, by every CPython.
//
// No Python.h: what the stable ABI promises of a module definition is spelt out here, and CPython's functions are weak, so that
// the library still loads into a program that has no Python.
#include <stddef.h>
#include <stdint.h>

#include "agent/agent.h"
#include "sigsafe/state.h"

struct py_object; // PyObject

struct py_method_def {
	const char *name;
	struct py_object *(*call)(struct py_object *self, struct py_object *args);
	int flags;
	const char *doc;
};

struct py_module_slot {
	int slot;
	void *value;
};

// PyModuleDef of the stable ABI (3.5 and later, builds with a GIL).
struct py_module_def {
	struct {
		intptr_t refcount;
		void *type;
		struct py_object *(*init)(void);
		intptr_t index;
		struct py_object *copy;
	} base;
	const char *name;
	const char *doc;
	intptr_t size;
	struct py_method_def *methods;
	struct py_module_slot *slots;
	void *traverse, *clear, *free;
};

extern struct py_object *PyModuleDef_Init(struct py_module_def *def) __attribute__((weak));
extern struct py_object *PyBool_FromLong(long value) __attribute__((weak));

extern const char *PyUnicode_AsUTF8(struct py_object *text) __attribute__((weak));
extern void PyErr_SetString(struct py_object *type, const char *message) __attribute__((weak));
extern struct py_object *PyExc_RuntimeError __attribute__((weak));

#define METH_NOARGS 4
#define METH_O 8

static struct py_object *is_active(struct py_object *self, struct py_object *args)
{
	(void)self;
	(void)args;
	return PyBool_FromLong(fm_sig.header != NULL && !fm_sig.header->is_over);
}

static struct py_object *start(struct py_object *self, struct py_object *ring_path)
{
	(void)self;
	const char *path = PyUnicode_AsUTF8(ring_path);
	const char *why_not = path ? fm_agent_late_start(path) : NULL;
	if (why_not)
		PyErr_SetString(PyExc_RuntimeError, why_not);
	return path && !why_not ? PyBool_FromLong(1) : NULL;
}

static struct py_object *stop(struct py_object *self, struct py_object *args)
{
	(void)self;
	(void)args;
	fm_agent_late_stop();
	return PyBool_FromLong(1);
}

static struct py_object *leave(struct py_object *self, struct py_object *args)
{
	(void)self;
	(void)args;
	fm_agent_late_leave();
	return PyBool_FromLong(1);
}

static struct py_method_def methods[] = {
	{ "is_active", is_active, METH_NOARGS, "True while this process is being profiled by fathom." },
	{ "start", start, METH_O, "Begins a capture: start(path of a collector's shared memory)." },
	{ "stop", stop, METH_NOARGS, "No sample is taken after this." },
	{ "leave", leave, METH_NOARGS, "Gives the program its signals back, when the collector has ended." },
	{ NULL, NULL, 0, NULL },
};

static struct py_module_slot slots[] = { { 0, NULL } };

static struct py_module_def definition = {
	.base = { .refcount = 1 },
	.name = "_agent",
	.doc = "Fathom's agent, the part that runs inside a profiled program.",
	.methods = methods,
	.slots = slots,
};

__attribute__((visibility("default"))) struct py_object *PyInit__agent(void);
__attribute__((visibility("default"))) struct py_object *PyInit__agent(void)
{
	return PyModuleDef_Init ? PyModuleDef_Init(&definition) : NULL;
}
