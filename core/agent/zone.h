// SPDX-License-Identifier: Apache-2.0
// Zones, marks and counters that a program writes itself (fathom.zone and kin): functions of the
// module.
#pragma once

#include "agent/py_api.h"

// Makes what the functions below need; -1 with an exception set.
int fm_zone_set_up(void);

// zone(name): the object for `with` and for decorating; made by the factory at the name's first
// use.
struct py_object *fm_zone_get(struct py_object *self, struct py_object *name);
// use_zone_factory(function): function(begin, end) makes a zone object of two callables that take
// anything.
struct py_object *fm_zone_use_factory(struct py_object *self, struct py_object *factory);
struct py_object *fm_zone_mark(struct py_object *self, struct py_object *text);
struct py_object *fm_zone_counter(struct py_object *self, struct py_object *const *args, intptr_t n);
