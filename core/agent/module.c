// The agent as a Python module, `fathom._agent`: the same file that is preloaded can be imported, by every CPython.
//
// No Python.h: what the stable ABI promises of a module definition is spelt out here, and CPython's functions are weak, so that
// the library still loads into a program that has no Python.
#include <stddef.h>
#include <stdint.h>

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

#define METH_NOARGS 4

static struct py_object *is_active(struct py_object *self, struct py_object *args)
{
	(void)self;
	(void)args;
	return PyBool_FromLong(fm_sig.header != NULL && !fm_sig.header->is_over);
}

static struct py_method_def methods[] = {
	{ "is_active", is_active, METH_NOARGS, "True while this process is being profiled by fathom." },
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
