// Which functions are traced, by their file.
#pragma once

#include <stdbool.h>

#include "agent/py_api.h"

bool fm_trace_filter_allows(const char *file);
// A function of the module.
struct py_object *fm_trace_filter_set(struct py_object *self, struct py_object *const *args, intptr_t n);
