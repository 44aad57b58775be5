// SPDX-License-Identifier: Apache-2.0
// The table of calls of a trace.
#pragma once

#include "aggregate/trace/trace.h"
#include "aggregate/tree/view.h"
#include "render/shared/style.h"

void fm_calls_print(FILE *out, const struct fm_trace_stats *stats, const struct fm_view_options *options);
// All there is to say of the functions of one name (also "Class.name" and "file.py:line"). False:
// there is none.
bool fm_calls_print_function(FILE *out, const struct fm_trace_stats *stats, const char *name,
			     const struct fm_view_options *options);

// Parts of a row: a time in ten cells; a name with its place, in what is left of the line from
// column `at` on.
void fm_calls_put_time(FILE *out, uint64_t ns);
void fm_calls_put_name(const struct fm_style *s, const struct fm_traced_function *f, unsigned at, bool has_full_names);
