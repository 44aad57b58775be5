// SPDX-License-Identifier: Apache-2.0
// "calls" of the report for machines.
#pragma once

#include "base/err.h"
#include "base/json.h"

FM_MUST_CHECK enum fm_err fm_json_calls(struct fm_json *j, const char *path, struct fm_diag *diag);
