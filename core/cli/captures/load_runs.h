// SPDX-License-Identifier: Apache-2.0
// Captures read and added up, for what compares runs: --repeat, diff, check.
#pragma once

#include <stdio.h>

#include "aggregate/compare/runs.h"
#include "cli/captures/captures.h"

// Reads every capture once. One line in diag on failure.
FM_MUST_CHECK enum fm_err fm_load_runs(struct fm_runs *ret, const struct fm_captures *captures,
				       const struct fm_view_options *options, struct fm_diag *diag);
// Prints the means over repeated captures.
FM_MUST_CHECK enum fm_err fm_report_runs(FILE *out, const struct fm_captures *captures,
					 const struct fm_view_options *options, struct fm_diag *diag);
