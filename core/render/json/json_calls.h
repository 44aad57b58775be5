// SPDX-License-Identifier: Apache-2.0
// "calls" of the report for machines.
#pragma once

#include "aggregate/trace/trace.h"
#include "base/json.h"

void fm_json_calls(struct fm_json *j, const struct fm_trace_stats *s);
