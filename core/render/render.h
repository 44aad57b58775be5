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
	enum fm_analysis_parts parts; // what it shows
	bool is_of_calls;             // has no metric
};

// Ends with a row whose name is NULL.
extern const struct fm_format fm_formats[];
// NULL when there is none of that name.
const struct fm_format *fm_format_find(const char *name);

// Opens and reads the profile for whoever wants these parts of it.
FM_MUST_CHECK enum fm_err fm_render_open(const char *profile_path, const struct fm_view_options *options,
					 enum fm_analysis_parts parts, struct fm_analysis **ret, struct fm_diag *diag);

// Writes a profile that was opened for what the format shows. out_path NULL or "-" is standard
// output. The options may differ from those that it was opened with in how the text looks. On
// failure diag holds one line and a half-written regular file is gone.
FM_MUST_CHECK enum fm_err fm_render_as(const struct fm_format *format, struct fm_analysis *a, const char *out_path,
				       const struct fm_view_options *options, struct fm_diag *diag);

// Reads the profile and writes it as the named format, as fm_render_as() does.
FM_MUST_CHECK enum fm_err fm_render_write(const char *format, const char *profile_path, const char *out_path,
					  const struct fm_view_options *options, struct fm_diag *diag);

// All there is to say of one function or line: "App.work", "app.py:20". FM_E_USAGE: none or several
// are called so, and ret_found has those that may be meant, a line each; the caller frees it.
enum fm_focus_form { FM_FOCUS_TEXT, FM_FOCUS_JSON, FM_FOCUS_MARKDOWN };
FM_MUST_CHECK enum fm_err fm_render_focus(const char *profile_path, const char *word, enum fm_focus_form form,
					  const char *out_path, const struct fm_view_options *options,
					  struct fm_buf *ret_found, struct fm_diag *diag);

// fm_render_write for the viewer in one file, which may compare with a second capture (NULL = none).
FM_MUST_CHECK enum fm_err fm_render_html(const char *base_path, const char *path, const char *out_path,
					 const struct fm_view_options *options, struct fm_diag *diag);
