// SPDX-License-Identifier: Apache-2.0
// What a statement may do: read these tables, within bounds of time, memory and length, and nothing
// else. No file is opened for it or written, no other database attached, no extension loaded.
#pragma once

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define FM_QUERY_MAX_SQL 100000u // bytes: longer ones were not written by hand

struct fm_guard {
	sqlite3 *db;
	const char *refused;  // what it wanted beside reading, or NULL
	uint64_t deadline_ns; // on the clock of the process's CPU time
	bool is_late;
};

// An empty database in memory, in which nothing is allowed from fm_guard_close_in() on.
FM_MUST_CHECK enum fm_err fm_guard_open(struct fm_guard *g, uint64_t max_bytes, struct fm_diag *diag);
void fm_guard_close_in(struct fm_guard *g);
// What the statement may take of CPU time is counted from now on. Also within a single function of
// SQL the process ends, by SIGPROF, soon after: SQLite asks between its steps only.
void fm_guard_start(struct fm_guard *g, double timeout_s);
void fm_guard_stop(struct fm_guard *g);
void fm_guard_deinit(struct fm_guard *g);
