// SPDX-License-Identifier: Apache-2.0
// fathom report --history NAME: the dated runs of a script with their totals.
#pragma once

#include "aggregate/tree/view.h"
#include "base/err.h"

FM_MUST_CHECK enum fm_err fm_history_print(const char *output_dir, const char *name, struct fm_diag *diag);
