// SPDX-License-Identifier: Apache-2.0
// Callables that are not Python code, named by themselves: functions and methods of C modules,
// types, and objects that can be called (ufuncs, functions of binding generators). Known by what
// does not move: the definition of a function or method, the type of anything else.
#include "agent/py_api.h"
#include "agent/trace.h"

#include <stdio.h>
#include <string.h>

#define TYPE_SUBCLASS (1ul << 31) // Py_TPFLAGS_TYPE_SUBCLASS
#define HEAP_TYPE (1ul << 9)      // Py_TPFLAGS_HEAPTYPE
#define MAX_NAME 256

// What follows the head of PyCFunctionObject, PyMethodDescrObject and PyMethodObject, as far as we
// look. Unchanged from 3.8 to 3.14.
struct method_descriptor {
	struct py_object *of_type, *name, *qualname;
	const struct py_method_def *def;
};
struct bound_method {
	struct py_object *function;
};

static bool is_type(struct py_object *o)
{
	return PyType_GetFlags(py_type(o)) & TYPE_SUBCLASS;
}

// Of a type, which other words follow. Unchanged from 3.8 to 3.15.
struct type_head {
	intptr_t n_items;
	const char *name;
	void *others[14];
	void *get_attribute;
};

// A class that the program makes may be gone, and another one lie at its address: its name is a
// part of what it is known by.
static uintptr_t key_of_type(struct py_object *type)
{
	uintptr_t key = (uintptr_t)type;
	if (PyType_GetFlags(type) & HEAP_TYPE)
		for (const char *c = ((const struct type_head *)py_body(type))->name; *c; c++)
			key = (key ^ (unsigned char)*c) * 0x100000001b3u; // FNV-1a
	return key;
}

static uintptr_t key_of(struct py_object *o)
{
	struct py_object *type = py_type(o);
	if (type == &PyCFunction_Type)
		return (uintptr_t)((const struct py_c_function *)py_body(o))->def;
	if (type == &PyMethodDescr_Type)
		return (uintptr_t)((const struct method_descriptor *)py_body(o))->def;
	if (type == &PyFunction_Type)
		return 0;
	if (type == &PyMethod_Type) {
		struct py_object *function = ((const struct bound_method *)py_body(o))->function;
		return function && py_type(function) != &PyFunction_Type ? key_of(function) : 0;
	}
	// A type is itself. An object is known by its type: objects come and go, and their
	// addresses are used again. Those of built-in types with names of their own (ufuncs) live
	// as long as their module.
	if (is_type(o))
		return key_of_type(o);
	return PyType_GetFlags(type) & HEAP_TYPE ? key_of_type(type) : (uintptr_t)o;
}

// Appends a value that is a text, and lets go of it; NULL, and what is no text, is nothing.
static bool append_value(char *to, struct py_object *value)
{
	intptr_t len = 0;
	const char *text = value ? PyUnicode_AsUTF8AndSize(value, &len) : NULL;
	size_t have = strlen(to);
	bool is_done = text && *text;
	if (is_done)
		snprintf(to + have, MAX_NAME - have, "%.*s", (int)len, text);
	if (value)
		Py_DecRef(value);
	PyErr_Clear();
	return is_done;
}

// Of an object that answers as all do. Of a proxy, or an alias of a class, it would be another object that answers, by
// code of the program.
static bool append_own_name(char *to, struct py_object *o)
{
	if (((const struct type_head *)py_body(py_type(o)))->get_attribute != (void *)PyObject_GenericGetAttr)
		return false;
	return append_value(to, PyObject_GetAttrString(o, "__name__"));
}

// What `type` itself says of a class: to ask the class would run its metaclass's code.
static bool append_of_type(char *to, struct py_object *type, const char *attribute)
{
	struct py_object *all = PyObject_GetAttrString(&PyType_Type, "__dict__");
	struct py_object *descriptor = all ? PyObject_CallMethod(all, "get", "s", attribute) : NULL;
	struct py_object *value = descriptor ? PyObject_CallMethod(descriptor, "__get__", "O", type) : NULL;
	if (all)
		Py_DecRef(all);
	if (descriptor)
		Py_DecRef(descriptor);
	return append_value(to, value);
}

static void append_type(char *to, struct py_object *type)
{
	char module[MAX_NAME] = "";
	if (append_of_type(module, type, "__module__") && strcmp(module, "builtins") != 0)
		snprintf(to + strlen(to), MAX_NAME - strlen(to), "%s.", module);
	append_of_type(to, type, "__qualname__");
}

static void append_text(char *to, const char *text)
{
	snprintf(to + strlen(to), MAX_NAME - strlen(to), "%s", text);
}

static void name_of(struct py_object *o, char *ret)
{
	ret[0] = 0;
	if (py_type(o) == &PyMethod_Type)
		o = ((const struct bound_method *)py_body(o))->function;
	struct py_object *type = py_type(o);
	if (type == &PyCFunction_Type) {
		const struct py_c_function *f = py_body(o);
		intptr_t len;
		const char *module = f->module ? PyUnicode_AsUTF8AndSize(f->module, &len) : NULL;
		PyErr_Clear();
		if (module) {
			append_text(ret, module);
			append_text(ret, ".");
		} else if (f->self) {
			append_type(ret, is_type(f->self) ? f->self : py_type(f->self));
			append_text(ret, ".");
		}
		append_text(ret, f->def->name);
	} else if (type == &PyMethodDescr_Type) {
		const struct method_descriptor *d = py_body(o);
		append_type(ret, d->of_type);
		append_text(ret, ".");
		append_text(ret, d->def->name);
	} else if (is_type(o)) {
		append_type(ret, o);
	} else {
		append_type(ret, type);
		if (!(PyType_GetFlags(type) & HEAP_TYPE)) {
			append_text(ret, " ");
			if (!append_own_name(ret, o))
				ret[strlen(ret) - 1] = 0;
		}
	}
}

uint32_t fm_trace_function(struct fm_trace_thread *t, struct py_object *callable)
{
	uintptr_t key = key_of(callable);
	if (!key)
		return 0;
	// Two places: those that share one take turns, and their names are told again under a new
	// id.
	uintptr_t hash = (key >> 4 ^ key >> 14) * 2;
	struct fm_trace_function *entries[2] = { &t->functions[hash & (FM_TRACE_FUNCTIONS - 1)],
						 &t->functions[(hash + 1) & (FM_TRACE_FUNCTIONS - 1)] };
	for (int i = 0; i < 2; i++)
		if (FM_LIKELY(entries[i]->key == key))
			return entries[i]->id;
	// The program's own exception, if one is on its way, must not be lost to ours.
	if (PyErr_Occurred())
		return 0;
	char name[MAX_NAME];
	name_of(callable, name);
	uint32_t id = fm_trace_tell_name(FM_WIRE_NAME_FUNCTION, name, strlen(name));
	if (!id)
		return 0;
	struct fm_trace_function *entry = entries[0]->key ? entries[1] : entries[0];
	entry->key = key;
	entry->id = id;
	return id;
}
