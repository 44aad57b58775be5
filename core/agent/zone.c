// SPDX-License-Identifier: Apache-2.0
// What is open is told by the events, so a zone is its name and nothing else: one object serves all
// threads and any nesting, and asking for it again is a look-up. Names are told to the collector at
// their first use in each capture.
//
// `with` asks the object's type for __enter__ and __exit__ and binds them to the object, which for
// a method written in C makes an object each time. So each zone has a type of its own, made by the
// package, whose two attributes are callables that are bound already and know their zone. That
// makes a zone three times as cheap.
#include "agent/zone.h"

#include <string.h>

#include "agent/trace.h"
#include "agent/zone_api.h"

// Ever new names must not fill the program's memory: later ones are made anew at each use.
#define MAX_NAMES 65536
#define MAX_ZONES 4096
// Names are literals mostly, one object each: the zone is found by its address first, in a fifth of
// the time that a dict takes.
#define N_RECENT 256 // power of two

// PyTypeObject of 3.8, whose PyType_FromSpec knows no vectorcall.
#define VECTORCALL_OFFSET_38 56
#define TYPE_FLAGS_38 168
#define UNICODE_SUBCLASS (1ul << 28) // Py_TPFLAGS_UNICODE_SUBCLASS

// The generation of the capture that knows the id, and below it the id: one word, because without a
// GIL threads share names.
typedef _Atomic uint64_t told_id;

struct name {
	struct py_object head;
	struct py_object *text;
	told_id zone, mark, counter;
};

struct bound { // begins or ends one zone
	struct py_object head;
	py_vectorcall_function call;
	struct name *name;
};

static struct py_object *name_type, *bound_type;
static struct py_object *names, *zones; // by text
static struct py_object *zone_factory;
static struct {
	struct py_object *name, *zone; // references of ours
} recent[N_RECENT];
static bool is_none_immortal; // from 3.12 on its references are not counted

static uint32_t id_of(struct name *name, told_id *told, uint32_t kind)
{
	// The generation also grows when call tracing starts and stops; a name is then told once
	// more, which is harmless.
	uint64_t generation = atomic_load_explicit(&fm_trace.generation, memory_order_relaxed);
	uint64_t known = atomic_load_explicit(told, memory_order_relaxed);
	if (FM_LIKELY((uint32_t)known && known >> 32 == generation))
		return (uint32_t)known;
	intptr_t len = 0;
	const char *text = PyUnicode_AsUTF8AndSize(name->text, &len);
	uint32_t id = text ? fm_trace_tell_name(kind, text, (size_t)len) : 0;
	atomic_store_explicit(told, generation << 32 | id, memory_order_relaxed);
	return id;
}

static inline struct py_object *none(void)
{
	if (FM_UNLIKELY(!is_none_immortal)) // its refcount is in every CPU's mind: not even zero is added to it
		_Py_NoneStruct.words[0]++;
	return &_Py_NoneStruct;
}

static inline bool is_recording(void)
{
	return atomic_load_explicit(&fm_trace.is_recording, memory_order_relaxed);
}

// With fm_zone_leave() after; NULL when nobody records.
static inline struct fm_trace_thread *enter_when_recording(void)
{
	return is_recording() ? fm_zone_enter() : NULL;
}

// Apart from the two functions below, so that these are a load and a branch for who is not
// recorded.
static __attribute__((noinline)) void record_begin(struct name *name)
{
	struct fm_trace_thread *t = fm_zone_enter();
	if (!t)
		return;
	uint32_t id = id_of(name, &name->zone, FM_WIRE_NAME_ZONE);
	if (id)
		fm_trace_push_now(t, FM_WIRE_BEGIN, id);
	fm_zone_leave(t);
}

static __attribute__((noinline)) void record_end(struct name *name)
{
	uint64_t stamp = fm_trace_stamp();
	struct fm_trace_thread *t = fm_zone_enter();
	if (!t)
		return;
	uint32_t id = id_of(name, &name->zone, FM_WIRE_NAME_ZONE);
	if (id)
		fm_trace_push(t, stamp, FM_WIRE_END, id);
	fm_zone_leave(t);
}

static struct py_object *begin_zone(struct py_object *self, struct py_object *const *args, size_t n,
				    struct py_object *keywords)
{
	(void)args, (void)n, (void)keywords;
	if (FM_UNLIKELY(is_recording()))
		record_begin(((struct bound *)self)->name);
	return none();
}

static struct py_object *end_zone(struct py_object *self, struct py_object *const *args, size_t n,
				  struct py_object *keywords)
{
	(void)args, (void)n, (void)keywords;
	if (FM_UNLIKELY(is_recording()))
		record_end(((struct bound *)self)->name);
	return none();
}

// For who does not know vectorcall.
static struct py_object *call_bound(struct py_object *self, struct py_object *args, struct py_object *keywords)
{
	(void)args, (void)keywords;
	return ((struct bound *)self)->call(self, NULL, 0, NULL);
}

static void release(struct py_object *self)
{
	struct py_object *type = py_type(self);
	((void (*)(void *))PyType_GetSlot(type, PY_TP_FREE))(self);
	Py_DecRef(type);
}

static void free_name(struct py_object *self)
{
	if (((struct name *)self)->text)
		Py_DecRef(((struct name *)self)->text);
	release(self);
}

static void free_bound(struct py_object *self)
{
	if (((struct bound *)self)->name)
		Py_DecRef(&((struct bound *)self)->name->head);
	release(self);
}

// An interpreter that has ended takes what it made with it. A program with Python inside may start another one, for
// which all of it is made anew.
static void forget_all(void)
{
	name_type = bound_type = names = zones = zone_factory = NULL;
	memset(recent, 0, sizeof(recent));
	fm_trace_monitor_forget();
}

int fm_zone_set_up(void)
{
	static struct py_member_def members[] = {
		{ "__vectorcalloffset__", PY_MEMBER_SSIZE, offsetof(struct bound, call), PY_MEMBER_READONLY, NULL },
		{ NULL, 0, 0, 0, NULL },
	};
	static struct py_type_slot bound_slots[] = {
		{ PY_TP_CALL, call_bound }, { PY_TP_DEALLOC, free_bound }, { PY_TP_MEMBERS, members }, { 0, NULL }
	};
	static struct py_type_slot name_slots[] = { { PY_TP_DEALLOC, free_name }, { 0, NULL } };
	static struct py_type_spec bound_spec = { "fathom._agent.Bound", sizeof(struct bound), 0, PY_HAVE_VECTORCALL,
						  bound_slots };
	static struct py_type_spec name_spec = { "fathom._agent.Name", sizeof(struct name), 0, 0, name_slots };
	if (names)
		return 0; // a second interpreter
	if (Py_AtExit)
		Py_AtExit(forget_all);
	is_none_immortal = &Py_Version && Py_Version >= 0x030c0000;
	bool is_38 = !PyObject_Vectorcall;
	if (is_38) {
		bound_spec.flags = 0;
		bound_slots[2].number = 0; // the list ends before the members
	}
	bound_type = PyType_FromSpec(&bound_spec);
	if (is_38 && bound_type) {
		*(intptr_t *)((uint8_t *)bound_type + VECTORCALL_OFFSET_38) = offsetof(struct bound, call);
		*(unsigned long *)((uint8_t *)bound_type + TYPE_FLAGS_38) |= PY_HAVE_VECTORCALL;
	}
	name_type = PyType_FromSpec(&name_spec);
	names = PyDict_New();
	zones = PyDict_New();
	return bound_type && name_type && names && zones ? 0 : -1;
}

// A new reference; NULL when there is none, or with an exception set. Without a GIL two threads may
// make the same name or zone at one time: the second takes the first one's place in the dict, and
// both are good. So nobody may rely on the dict's own reference.
static struct py_object *look_up(struct py_object *dict, struct py_object *text)
{
	struct py_object *known = NULL;
	if (PyDict_GetItemRef) {
		PyDict_GetItemRef(dict, text, &known);
	} else {
		known = PyDict_GetItemWithError(dict, text);
		if (known)
			Py_IncRef(known);
	}
	return known;
}

static bool is_text(struct py_object *o)
{
	return FM_LIKELY(py_type(o) == &PyUnicode_Type) || PyType_GetFlags(py_type(o)) & UNICODE_SUBCLASS;
}

// The text, or one that can be written down in its place (half of a surrogate pair cannot). A new
// reference; NULL with an exception set.
static struct py_object *writable(struct py_object *text)
{
	intptr_t len;
	if (PyUnicode_AsUTF8AndSize(text, &len)) {
		Py_IncRef(text);
		return text;
	}
	PyErr_Clear();
	struct py_object *bytes = PyObject_CallMethod(text, "encode", "ss", "utf-8", "backslashreplace");
	struct py_object *ret = bytes ? PyObject_CallMethod(bytes, "decode", "s", "utf-8") : NULL;
	if (bytes)
		Py_DecRef(bytes);
	return ret;
}

// The name's object: the one there is, or a new one. A new reference; NULL with an exception set.
static struct name *get_name(struct py_object *text)
{
	struct py_object *known = look_up(names, text);
	if (FM_LIKELY(known != NULL))
		return (struct name *)known;
	if (PyErr_Occurred())
		return NULL;
	if (!is_text(text)) {
		PyErr_Format(PyExc_TypeError, "the name of a zone, mark or counter is a text, not %R", text);
		return NULL;
	}
	struct name *name = (struct name *)PyType_GenericAlloc(name_type, 0);
	if (!name)
		return NULL;
	name->text = writable(text);
	if (!name->text) {
		Py_DecRef(&name->head);
		return NULL;
	}
	if (PyDict_Size(names) < MAX_NAMES && PyDict_SetItem(names, text, &name->head) != 0) {
		Py_DecRef(&name->head);
		return NULL;
	}
	return name;
}

static struct bound *bind(struct name *name, py_vectorcall_function call)
{
	struct bound *bound = (struct bound *)PyType_GenericAlloc(bound_type, 0);
	if (bound) {
		bound->call = call;
		bound->name = name;
		Py_IncRef(&name->head);
	}
	return bound;
}

static struct py_object *make_zone(struct py_object *text)
{
	struct name *name = get_name(text);
	if (!name)
		return NULL;
	struct bound *begin = bind(name, begin_zone), *end = bind(name, end_zone);
	struct py_object *zone = NULL;
	if (begin && end && zone_factory)
		zone = PyObject_CallFunction(zone_factory, "OO", begin, end);
	else if (!PyErr_Occurred())
		PyErr_SetString(PyExc_RuntimeError, "the fathom package has not set up its zones");
	if (zone && PyDict_Size(zones) < MAX_ZONES && PyDict_SetItem(zones, text, zone) != 0) {
		Py_DecRef(zone);
		zone = NULL;
	}
	if (begin)
		Py_DecRef(&begin->head);
	if (end)
		Py_DecRef(&end->head);
	Py_DecRef(&name->head);
	return zone;
}

static void remember(struct py_object *name, struct py_object *zone, unsigned at)
{
	struct py_object *old_name = recent[at].name, *old_zone = recent[at].zone;
	Py_IncRef(name); // so that its address stays its own
	Py_IncRef(zone);
	recent[at].name = name;
	recent[at].zone = zone;
	if (old_name) { // last: this may run code of the program
		Py_DecRef(old_name);
		Py_DecRef(old_zone);
	}
}

static __attribute__((noinline)) struct py_object *find_or_make(struct py_object *name, unsigned at)
{
	struct py_object *zone = look_up(zones, name);
	if (FM_UNLIKELY(zone == NULL))
		return PyErr_Occurred() ? NULL : make_zone(name);
	if (!py_is_free_threaded()) // there another thread could take a place's objects away from under us
		remember(name, zone, at);
	return zone;
}

struct py_object *fm_zone_get(struct py_object *self, struct py_object *name)
{
	(void)self;
	unsigned at = (unsigned)((uintptr_t)name >> 4 ^ (uintptr_t)name >> 12) & (N_RECENT - 1);
	if (FM_UNLIKELY(recent[at].name != name))
		return find_or_make(name, at);
	recent[at].zone->words[0]++; // an object as others are: no version does more for it
	return recent[at].zone;
}

struct py_object *fm_zone_use_factory(struct py_object *self, struct py_object *factory)
{
	(void)self;
	Py_IncRef(factory);
	zone_factory = factory;
	return py_none();
}

struct py_object *fm_zone_mark(struct py_object *self, struct py_object *text)
{
	(void)self;
	// What nobody records is looked at all the same: an error then must be one always.
	if (!is_recording() && is_text(text))
		return none();
	struct name *name = get_name(text);
	if (!name)
		return NULL;
	struct fm_trace_thread *t = enter_when_recording();
	uint32_t id = t ? id_of(name, &name->mark, FM_WIRE_NAME_MARK) : 0;
	if (id)
		fm_trace_push_now(t, FM_WIRE_MARK, id);
	if (t)
		fm_zone_leave(t);
	Py_DecRef(&name->head);
	return none();
}

struct py_object *fm_zone_counter(struct py_object *self, struct py_object *const *args, intptr_t n)
{
	(void)self;
	if (n != 2)
		return PyErr_Format(PyExc_TypeError, "counter() takes a name and a number, not %zd arguments", n);
	double value = PyFloat_AsDouble(args[1]);
	if (value == -1 && PyErr_Occurred())
		return NULL;
	if (!is_recording() && is_text(args[0]))
		return none();
	struct name *name = get_name(args[0]);
	if (!name)
		return NULL;
	struct fm_trace_thread *t = enter_when_recording();
	uint32_t id = t ? id_of(name, &name->counter, FM_WIRE_NAME_COUNTER) : 0;
	if (id) {
		uint64_t bits;
		memcpy(&bits, &value, sizeof(bits));
		fm_trace_push_now(t, FM_WIRE_COUNTER, id);
		fm_trace_push(t, bits, FM_WIRE_VALUE, 0);
	}
	if (t)
		fm_zone_leave(t);
	Py_DecRef(&name->head);
	return none();
}
