// SPDX-License-Identifier: Apache-2.0
// A wrong statement in one line: what SQLite says, and the nearest name that there is.
#pragma once

#include "base/err.h"

// message: SQLite's own, such as "no such column: self_ms".
enum fm_err fm_query_explain(const char *message, const char *sql, struct fm_diag *diag);
