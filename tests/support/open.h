// SPDX-License-Identifier: Apache-2.0
// A profile file, opened and read as commands do.
#pragma once

#include "aggregate/analysis/analysis.h"

FM_MUST_CHECK static inline enum fm_err open_analysis(const char *path, const struct fm_view_options *options,
						      enum fm_analysis_parts parts, struct fm_analysis **ret,
						      struct fm_diag *diag)
{
	struct fm_reader *reader;
	enum fm_err err = fm_reader_open(path, &reader, diag);
	return err ? err : fm_analysis_read(reader, options, parts, NULL, ret, diag);
}
