// A zone object is its name and nothing else: what is open is told by the events. So one object serves all threads and any
// nesting, and asking for it again is a look-up. Names are told to the collector at their first use in each capture.
#include "agent/zone.h"

#include <string.h>

#include "agent/trace.h"

// Marks and zones with ever new names must not fill the program's memory: later ones are told anew at each use.
#define MAX_NAMES 65536

struct name {
	uint32_t id;
	uint32_t generation; // of the capture that knows the id
};

struct zone {
	struct py_object head;
	struct py_object *text;
	struct name zone, mark, counter;
};

static struct py_object *zone_type, *zones; // zones: name -> zone object

static uint32_t id_of(struct zone *z, struct name *name, uint32_t kind)
{
	// The generation also grows when call tracing starts and stops; a name is then told once more, which is harmless.
	uint32_t generation = atomic_load_explicit(&fm_trace.generation, memory_order_relaxed);
	if (FM_LIKELY(name->id && name->generation == generation))
		return name->id;
	intptr_t len = 0;
	const char *text = z->text ? PyUnicode_AsUTF8AndSize(z->text, &len) : NULL;
	if (!text) {
		PyErr_Clear(); // a lone surrogate, say
		text = "?";
		len = 1;
	}
	name->id = fm_trace_tell_name(kind, text, (size_t)len);
	name->generation = generation;
	return name->id;
}

static inline struct fm_trace_thread *thread_when_recording(void)
{
	return atomic_load_explicit(&fm_trace.is_recording, memory_order_relaxed) ? fm_trace_self() : NULL;
}

static struct py_object *zone_enter(struct py_object *self, struct py_object *unused)
{
	(void)unused;
	struct fm_trace_thread *t = thread_when_recording();
	uint32_t id = t ? id_of((struct zone *)self, &((struct zone *)self)->zone, FM_WIRE_NAME_ZONE) : 0;
	if (id)
		fm_trace_enter(t, FM_WIRE_BEGIN, id);
	Py_IncRef(self);
	return self;
}

static struct py_object *zone_exit(struct py_object *self, struct py_object *const *args, intptr_t n)
{
	(void)args;
	(void)n;
	uint64_t stamp = fm_trace_stamp();
	struct fm_trace_thread *t = thread_when_recording();
	uint32_t id = t ? id_of((struct zone *)self, &((struct zone *)self)->zone, FM_WIRE_NAME_ZONE) : 0;
	if (id)
		fm_trace_leave(t, stamp, FM_WIRE_END, id);
	return py_none();
}

static void zone_free(struct py_object *self)
{
	struct py_object *type = self->type;
	if (((struct zone *)self)->text)
		Py_DecRef(((struct zone *)self)->text);
	void (*release)(void *) = (void (*)(void *))PyType_GetSlot(type, PY_TP_FREE);
	release(self);
	Py_DecRef(type);
}

static struct py_object *zone_repr(struct py_object *self)
{
	struct py_object *text = ((struct zone *)self)->text; // NULL in one that was made by hand
	return PyUnicode_FromFormat("fathom.zone(%R)", text ? text : &_Py_NoneStruct);
}

struct py_object *fm_zone_create_type(void)
{
	static struct py_method_def methods[] = {
		{ "__enter__", zone_enter, METH_NOARGS, NULL },
		{ "__exit__", (py_function)(void *)zone_exit, METH_FASTCALL, NULL },
		{ NULL, NULL, 0, NULL },
	};
	static struct py_type_slot slots[] = {
		{ PY_TP_METHODS, methods }, { PY_TP_DEALLOC, zone_free }, { PY_TP_REPR, zone_repr }, { 0, NULL }
	};
	// A base class, so that the package can make it a decorator.
	static struct py_type_spec spec = { "fathom._agent.Zone", sizeof(struct zone), 0,
					    PY_BASE_TYPE | PY_HAVE_VERSION_TAG, slots };
	if (!zones)
		zones = PyDict_New();
	return zones ? PyType_FromSpec(&spec) : NULL;
}

// The zone of that name: the one there is, or a new one. A new reference; NULL with an exception set.
struct py_object *fm_zone_get(struct py_object *self, struct py_object *name)
{
	struct py_object *zone = PyDict_GetItemWithError(zones, name);
	if (FM_LIKELY(zone != NULL)) {
		Py_IncRef(zone);
		return zone;
	}
	if (PyErr_Occurred())
		return NULL;
	if (!PyUnicode_AsUTF8AndSize(name, NULL)) {
		PyErr_Clear();
		return PyErr_Format(PyExc_TypeError, "the name of a zone, mark or counter is a string, not %R", name);
	}
	(void)self;
	zone = PyType_GenericAlloc(zone_type, 0);
	if (!zone)
		return NULL;
	Py_IncRef(name);
	((struct zone *)zone)->text = name;
	if (PyDict_Size(zones) < MAX_NAMES && PyDict_SetItem(zones, name, zone) != 0) {
		Py_DecRef(zone);
		return NULL;
	}
	return zone;
}

void fm_zone_use_type(struct py_object *type)
{
	Py_IncRef(type);
	zone_type = type;
}

struct py_object *fm_zone_mark(struct py_object *self, struct py_object *text)
{
	struct zone *z = (struct zone *)fm_zone_get(self, text);
	if (!z)
		return NULL;
	struct fm_trace_thread *t = thread_when_recording();
	uint32_t id = t ? id_of(z, &z->mark, FM_WIRE_NAME_MARK) : 0;
	if (id)
		fm_trace_push(t, fm_trace_stamp(), FM_WIRE_MARK, id);
	Py_DecRef(&z->head);
	return py_none();
}

struct py_object *fm_zone_counter(struct py_object *self, struct py_object *const *args, intptr_t n)
{
	if (n != 2)
		return PyErr_Format(PyExc_TypeError, "counter() takes a name and a number (%zd arguments given)", n);
	double value = PyFloat_AsDouble(args[1]);
	if (value == -1 && PyErr_Occurred())
		return NULL;
	struct zone *z = (struct zone *)fm_zone_get(self, args[0]);
	if (!z)
		return NULL;
	struct fm_trace_thread *t = thread_when_recording();
	uint32_t id = t ? id_of(z, &z->counter, FM_WIRE_NAME_COUNTER) : 0;
	if (id) {
		uint64_t bits;
		memcpy(&bits, &value, sizeof(bits));
		fm_trace_push(t, fm_trace_stamp(), FM_WIRE_COUNTER, id);
		fm_trace_push(t, bits, FM_WIRE_VALUE, 0);
	}
	Py_DecRef(&z->head);
	return py_none();
}
