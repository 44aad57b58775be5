// The least that tracing can cost, for bench/trace.py: what the interpreter itself takes when it is asked to tell of every call, by a hook or by callbacks
// that do nothing (reads_clock 0), or that read the clock at the beginning and the end of a call and forget it (1); and what it takes for `with zone(name):`
// where nothing is done but to return.
//
// Built for one Python, with its headers.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>

#include "base/clock.h"

#if PY_VERSION_HEX < 0x03090000
#define EVAL_ARGUMENTS struct _frame *frame, int is_throw
#define EVAL_PASSED_ON frame, is_throw
#elif PY_VERSION_HEX < 0x030b0000
#define EVAL_ARGUMENTS PyThreadState *tstate, struct _frame *frame, int is_throw
#define EVAL_PASSED_ON tstate, frame, is_throw
#else
#define EVAL_ARGUMENTS PyThreadState *tstate, struct _PyInterpreterFrame *frame, int is_throw
#define EVAL_PASSED_ON tstate, frame, is_throw
#endif

#define INTERP_EVAL_FRAME_38 568 // no function sets it there

typedef PyObject *(*eval_function)(EVAL_ARGUMENTS);

static volatile uint64_t last;

static PyObject *eval_only(EVAL_ARGUMENTS)
{
	return _PyEval_EvalFrameDefault(EVAL_PASSED_ON);
}

static PyObject *eval_with_clock(EVAL_ARGUMENTS)
{
	last = fm_cycles();
	PyObject *ret = _PyEval_EvalFrameDefault(EVAL_PASSED_ON);
	last = fm_cycles();
	return ret;
}

static PyObject *set_hook(PyObject *self, PyObject *reads_clock)
{
	(void)self;
	eval_function hook = PyObject_IsTrue(reads_clock) ? eval_with_clock : eval_only;
#if PY_VERSION_HEX < 0x03090000
	*(eval_function *)((char *)PyThreadState_Get()->interp + INTERP_EVAL_FRAME_38) = hook;
#else
	_PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), hook);
#endif
	Py_RETURN_NONE;
}

// For sys.monitoring, and for `with`.
struct callback {
	PyObject_HEAD vectorcallfunc call;
};

static PyObject *call_only(PyObject *self, PyObject *const *args, size_t n, PyObject *names)
{
	(void)self, (void)args, (void)n, (void)names;
	Py_RETURN_NONE;
}

static PyObject *call_with_clock(PyObject *self, PyObject *const *args, size_t n, PyObject *names)
{
	(void)self, (void)args, (void)n, (void)names;
	last = fm_cycles();
	Py_RETURN_NONE;
}

#if PY_VERSION_HEX < 0x03090000
#define Py_TPFLAGS_HAVE_VECTORCALL _Py_TPFLAGS_HAVE_VECTORCALL
#endif
static PyTypeObject callback_type = {
	PyVarObject_HEAD_INIT(NULL, 0).tp_name = "trace_floor.Callback",
	.tp_basicsize = sizeof(struct callback),
	.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
	.tp_vectorcall_offset = offsetof(struct callback, call),
	.tp_call = PyVectorcall_Call,
};

static PyObject *make_callback(PyObject *self, PyObject *reads_clock)
{
	(void)self;
	struct callback *made = PyType_Ready(&callback_type) ? NULL : PyObject_New(struct callback, &callback_type);
	if (made)
		made->call = PyObject_IsTrue(reads_clock) ? call_with_clock : call_only;
	return (PyObject *)made;
}

static PyObject *the_zone;

static PyObject *use_zone(PyObject *self, PyObject *zone)
{
	(void)self;
	Py_INCREF(zone);
	the_zone = zone;
	Py_RETURN_NONE;
}

static PyObject *give_zone(PyObject *self, PyObject *name)
{
	(void)self, (void)name;
	Py_INCREF(the_zone);
	return the_zone;
}

// The same as an object whose call is this function itself: what a built-in function checks before is left out.
static PyObject *give_zone_at_once(PyObject *self, PyObject *const *args, size_t n, PyObject *names)
{
	(void)names;
	return PyVectorcall_NARGS(n) == 1 ? give_zone(self, args[0]) : NULL;
}

static PyObject *make_zone_getter(PyObject *self, PyObject *unused)
{
	(void)unused;
	struct callback *made = (struct callback *)make_callback(self, Py_False);
	if (made)
		made->call = give_zone_at_once;
	return (PyObject *)made;
}

static PyMethodDef methods[] = {
	{ "set_hook", set_hook, METH_O, "Every call goes through a hook from now on." },
	{ "make_callback", make_callback, METH_O, "Something that takes anything and returns None." },
	{ "use_zone", use_zone, METH_O, "What zone() is to return." },
	{ "zone", give_zone, METH_O, "The same zone for every name." },
	{ "make_zone_getter", make_zone_getter, METH_NOARGS, "A zone() that is no built-in function." },
	{ NULL, NULL, 0, NULL },
};

static struct PyModuleDef definition = { PyModuleDef_HEAD_INIT, .m_name = "trace_floor", .m_methods = methods };

PyMODINIT_FUNC PyInit_trace_floor(void)
{
	return PyModule_Create(&definition);
}
