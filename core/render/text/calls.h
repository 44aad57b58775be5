// SPDX-License-Identifier: Apache-2.0
// The table of calls of a trace.
#pragma once

#include "aggregate/trace/trace.h"
#include "aggregate/tree/view.h"
#include "render/shared/style.h"

// Reads the trace of a profile and prints its table.
FM_MUST_CHECK enum fm_err fm_calls_write(FILE *out, const char *path, const struct fm_view_options *options,
					 struct fm_diag *diag);
// All there is to say of the functions of one name (also "Class.name" and "file.py:line").
// FM_E_NOT_FOUND: there is none.
FM_MUST_CHECK enum fm_err fm_calls_write_function(FILE *out, const char *path, const char *name,
						  const struct fm_view_options *options, struct fm_diag *diag);

// Parts of a row: a time in ten cells; a name with its place, in what is left of the line from
// column `at` on.
void fm_calls_put_time(FILE *out, uint64_t ns);
void fm_calls_put_name(const struct fm_style *s, const struct fm_trace_function *f, unsigned at, bool has_full_names);
