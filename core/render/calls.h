// The table of calls of a trace.
#pragma once

#include "aggregate/trace.h"
#include "aggregate/view.h"
#include "render/style.h"

// Reads the trace of a profile and prints its table.
FM_MUST_CHECK enum fm_err fm_calls_write(FILE *out, const char *path, const struct fm_view_options *options,
					 struct fm_diag *diag);
void fm_calls_print(const struct fm_style *s, const struct fm_trace_stats *stats,
		    const struct fm_view_options *options);
