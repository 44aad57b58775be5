// Zones, marks and counters that a program writes itself (fathom.zone and kin).
#pragma once

#include "agent/py_api.h"

// The type behind fathom.zone; NULL with an exception set.
struct py_object *fm_zone_create_type(void);

// The type of new zones, a subclass of the above.
void fm_zone_use_type(struct py_object *type);

struct py_object *fm_zone_get(struct py_object *self, struct py_object *name);
struct py_object *fm_zone_mark(struct py_object *self, struct py_object *text);
struct py_object *fm_zone_counter(struct py_object *self, struct py_object *const *args, intptr_t n);
