// SPDX-License-Identifier: Apache-2.0
// The few functions of CPython that the agent calls, without Python.h: all weak, so that the
// library still loads into a program that has no Python. Called by threads that are attached to the
// interpreter only: they hold the GIL, where there is one.
//
// Layouts are those of the stable ABI. The head of an object has two words, in free-threaded builds
// four: py_type() and py_body() know.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// PyObject. Objects of types of our own begin with it; in builds with a GIL the second half stays
// unused. Of others' only the address is good for anything.
struct py_object {
	uintptr_t words[4];
};

typedef struct py_object *(*py_function)(struct py_object *self, struct py_object *arg);
typedef struct py_object *(*py_fast_function)(struct py_object *self, struct py_object *const *args, intptr_t n);
typedef struct py_object *(*py_vectorcall_function)(struct py_object *self, struct py_object *const *args, size_t n,
						    struct py_object *names);
typedef int (*py_trace_function)(struct py_object *self, struct py_object *frame, int what, struct py_object *arg);

enum { METH_NOARGS = 4, METH_O = 8, METH_FASTCALL = 0x80 };

struct py_method_def {
	const char *name;
	py_function call; // a py_fast_function with METH_FASTCALL
	int flags;
	const char *doc;
};

// Behind the head of a PyCFunctionObject.
struct py_c_function {
	struct py_method_def *def;
	struct py_object *self, *module;
};

struct py_type_slot { // PyType_Slot
	int number;
	void *value;
};

struct py_type_spec { // PyType_Spec
	const char *name;
	int size, item_size;
	unsigned flags;
	struct py_type_slot *slots;
};

struct py_member_def { // PyMemberDef
	const char *name;
	int type;
	intptr_t offset;
	int flags;
	const char *doc;
};

// Numbers of the stable ABI.
enum { PY_TP_CALL = 50, PY_TP_DEALLOC = 52, PY_TP_METHODS = 64, PY_TP_REPR = 66, PY_TP_MEMBERS = 72, PY_TP_FREE = 74 };
enum { PY_BASE_TYPE = 1 << 10, PY_HAVE_VECTORCALL = 1 << 11, PY_HAVE_VERSION_TAG = 1 << 18 };
enum { PY_MEMBER_SSIZE = 19, PY_MEMBER_READONLY = 1 };

#define FM_PY_WEAK extern __attribute__((weak))

FM_PY_WEAK const unsigned long Py_Version; // from 3.11 on
FM_PY_WEAK struct py_object _Py_NoneStruct;
FM_PY_WEAK struct py_object PyCFunction_Type, PyMethodDescr_Type, PyFunction_Type, PyMethod_Type, PyUnicode_Type,
	PyType_Type;
FM_PY_WEAK struct py_object *PyExc_RuntimeError, *PyExc_TypeError, *PyExc_OSError;

FM_PY_WEAK int Py_AtExit(void (*fn)(void));
FM_PY_WEAK void Py_IncRef(struct py_object *o);
FM_PY_WEAK void Py_DecRef(struct py_object *o);
FM_PY_WEAK struct py_object *PyBool_FromLong(long value);
FM_PY_WEAK long PyLong_AsLong(struct py_object *o);
FM_PY_WEAK double PyFloat_AsDouble(struct py_object *o);
FM_PY_WEAK const char *PyUnicode_AsUTF8AndSize(struct py_object *o, intptr_t *ret_size);
FM_PY_WEAK void PyErr_SetString(struct py_object *type, const char *text);
FM_PY_WEAK struct py_object *PyErr_Format(struct py_object *type, const char *format, ...);
FM_PY_WEAK struct py_object *PyErr_Occurred(void);
FM_PY_WEAK void PyErr_Clear(void);
FM_PY_WEAK void PyErr_Fetch(struct py_object **ret_type, struct py_object **ret_value,
			    struct py_object **ret_traceback);
FM_PY_WEAK void PyErr_Restore(struct py_object *type, struct py_object *value, struct py_object *traceback);
FM_PY_WEAK struct py_object *PyObject_GetAttrString(struct py_object *o, const char *name);
FM_PY_WEAK struct py_object *PyObject_GenericGetAttr(struct py_object *o, struct py_object *name);
FM_PY_WEAK struct py_object *PyObject_CallMethod(struct py_object *o, const char *name, const char *format, ...);
FM_PY_WEAK struct py_object *PyObject_Vectorcall(struct py_object *o, struct py_object *const *args, size_t n,
						 struct py_object *names); // from 3.9 on
FM_PY_WEAK struct py_object *PyObject_CallFunction(struct py_object *o, const char *format, ...);
FM_PY_WEAK struct py_object *PySys_GetObject(const char *name); // borrowed
FM_PY_WEAK struct py_object *PyDict_New(void);
FM_PY_WEAK struct py_object *PyDict_GetItemWithError(struct py_object *dict, struct py_object *key);     // borrowed
FM_PY_WEAK int PyDict_GetItemRef(struct py_object *dict, struct py_object *key, struct py_object **ret); // from 3.13 on
FM_PY_WEAK int PyDict_SetItem(struct py_object *dict, struct py_object *key, struct py_object *value);
FM_PY_WEAK intptr_t PyDict_Size(struct py_object *dict);
FM_PY_WEAK unsigned long PyType_GetFlags(struct py_object *type);
FM_PY_WEAK struct py_object *PyType_FromSpec(struct py_type_spec *spec);
FM_PY_WEAK struct py_object *PyVectorcall_Call(struct py_object *o, struct py_object *args, struct py_object *names);
FM_PY_WEAK void *PyType_GetSlot(struct py_object *type, int slot);
FM_PY_WEAK struct py_object *PyType_GenericAlloc(struct py_object *type, intptr_t n_items);
FM_PY_WEAK void *PyThreadState_Get(void);
FM_PY_WEAK void PyEval_SetProfile(py_trace_function fn, struct py_object *self);
FM_PY_WEAK void PyEval_SetTrace(py_trace_function fn, struct py_object *self);
FM_PY_WEAK int PyFrame_GetLineNumber(struct py_object *frame);

FM_PY_WEAK void _Py_DecRefShared(struct py_object *o); // in free-threaded builds only, all of them

static inline bool py_is_free_threaded(void)
{
	return _Py_DecRefShared != NULL;
}

static inline struct py_object *py_type(const struct py_object *o)
{
	return (struct py_object *)o->words[py_is_free_threaded() ? 3 : 1];
}

// What comes after an object's head.
static inline const void *py_body(const struct py_object *o)
{
	return &o->words[py_is_free_threaded() ? 4 : 2];
}

// Lets go of what a call gave; true when it went well. An exception is swallowed.
static inline bool py_succeeds(struct py_object *ret)
{
	if (ret)
		Py_DecRef(ret);
	else
		PyErr_Clear();
	return ret != NULL;
}

static inline struct py_object *py_none(void)
{
	Py_IncRef(&_Py_NoneStruct);
	return &_Py_NoneStruct;
}
