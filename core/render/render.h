// SPDX-License-Identifier: Apache-2.0
// Everything a profile can be written as: one table of formats, one function to write any of them.
#pragma once

#include <stdio.h>

#include "aggregate/analysis/analysis.h"
#include "base/err.h"

struct fm_format {
	const char *name;
	const char *description;
	const char *extension; // for suggested file names, with its dot
	// Writes to out, streaming. Write errors stay in the FILE. An error of its own comes with a
	// line in diag.
	enum fm_err (*write)(FILE *out, struct fm_analysis *a, struct fm_diag *diag);
	bool is_of_trace; // shows calls where there are any: gets the path and options only, and reads the file itself
};

// Ends with a row whose name is NULL.
extern const struct fm_format fm_formats[];
// NULL when there is none of that name.
const struct fm_format *fm_format_find(const char *name);

// Reads the profile and writes it as the named format. out_path NULL or "-" is standard output. On
// failure diag holds one line and a half-written regular file is gone.
FM_MUST_CHECK enum fm_err fm_render_write(const char *format, const char *profile_path, const char *out_path,
					  const struct fm_view_options *options, struct fm_diag *diag);

// The same for the viewer in one file, which may compare with a second capture (NULL = none).
FM_MUST_CHECK enum fm_err fm_render_html(const char *base_path, const char *path, const char *out_path,
					 const struct fm_view_options *options, struct fm_diag *diag);
