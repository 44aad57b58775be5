// SPDX-License-Identifier: Apache-2.0
// One SELECT over the tables of one capture.
#pragma once

#include <stdio.h>

#include "aggregate/analysis/analysis.h"
#include "base/err.h"
#include "render/query/rows.h"

// What a statement is given where the user says nothing else.
#define FM_QUERY_LIMIT 50u // rows
#define FM_QUERY_TIMEOUT_S 30.0
#define FM_QUERY_MEMORY ((uint64_t)1 << 30) // of SQLite: sorting, grouping, what WITH keeps

struct fm_query_options {
	enum fm_rows_format format;
	uint64_t limit; // rows; 0 = all
	double timeout_s;
	uint64_t max_bytes; // of SQLite's memory
	struct fm_view_options view;
};

#define FM_QUERY_MAX_NOTES 4
struct fm_query_end {
	uint64_t n_rows, n_left_out;           // written, and beyond the limit
	bool is_more;                          // nobody counted how many more there are
	const char *notes[FM_QUERY_MAX_NOTES]; // of tables that were read: why they are empty; NULL ends them
};

// Whether the statement can be run at all; no capture is needed for it. FM_E_USAGE: it cannot.
FM_MUST_CHECK enum fm_err fm_query_check(const char *sql, const struct fm_query_options *options, struct fm_diag *diag);
// Checks the statement before the capture is opened, then writes what it gives; out_path NULL or "-"
// is standard output. FM_E_USAGE: the statement is wrong, and nothing was written; one line in diag,
// as with any other failure.
FM_MUST_CHECK enum fm_err fm_query_run(const char *sql, const char *profile_path, const char *out_path,
				       const struct fm_query_options *options, struct fm_query_end *ret,
				       struct fm_diag *diag);

// The tables and what each column means: for people, or as JSON (schema fathom.tables/1).
void fm_query_print_tables(FILE *out, const struct fm_view_options *view);
void fm_query_print_tables_json(FILE *out);
