// SPDX-License-Identifier: Apache-2.0
// Which functions are traced, by their file, and which of them line by line.
#pragma once

#include <stdbool.h>

#include "agent/py_api.h"

bool fm_trace_filter_allows(const char *file);
// True when lines are wanted of that function: it was chosen, or none was. is_qualified: the name
// says its class, too.
bool fm_trace_filter_has_lines(const char *file, const char *name, bool is_qualified);
// True when lines are wanted of chosen functions only.
bool fm_trace_filter_has_choice(void);
// A function of the module.
struct py_object *fm_trace_filter_set(struct py_object *self, struct py_object *const *args, intptr_t n);
