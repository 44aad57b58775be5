// SPDX-License-Identifier: Apache-2.0
// The document of `fathom report --json`, for whoever writes it as part of something larger.
#pragma once

#include "aggregate/analysis/analysis.h"
#include "aggregate/tree/libraries.h"
#include "base/json.h"

// The members of the document, inside an object that the caller began. has_rows: with `functions`
// and `lines`, which the viewer gets as columns instead.
void fm_report_json(struct fm_json *j, const struct fm_analysis *a, const struct fm_summary *t,
		    const struct fm_libraries *l, bool has_rows);
