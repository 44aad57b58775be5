// SPDX-License-Identifier: Apache-2.0
// The tables that `fathom query` and `export -f sqlite` show: each a list of columns with their
// meaning, and a function that gives its rows from what an analysis holds. The figures are those of
// `report --json`, under the same names.
#pragma once

#include "render/query/data.h"
#include "render/query/row.h"

enum fm_column_type { FM_COLUMN_INTEGER, FM_COLUMN_REAL, FM_COLUMN_TEXT };
extern const char *const fm_column_types[]; // as SQL calls them

struct fm_column {
	const char *name;
	enum fm_column_type type;
	const char *meaning;
	bool may_be_null; // else there is a value in every row
};

struct fm_query_table {
	const char *name, *meaning;
	const struct fm_column *columns;
	unsigned n_columns;
	double n_guess; // rows of a middling capture, for SQLite's planner: it plans before the capture is read
	enum fm_analysis_parts parts;
	uint64_t (*count)(struct fm_query_data *d); // makes the table ready; UINT64_MAX: rows come one after the other
	void (*row)(struct fm_query_data *d, uint64_t i, struct fm_row *ret); // i < count
	// For tables whose rows come one after the other: they are read from the file once more. One
	// line in diag on failure. FM_E_END after the last row.
	enum fm_err (*begin)(struct fm_query_data *d, struct fm_reader **ret, struct fm_diag *diag);
	enum fm_err (*next)(struct fm_query_data *d, struct fm_reader *reader, struct fm_row *ret);
	const char *lacks; // how a capture comes to have such rows; NULL where an empty table says nothing
};

// One file each, by topic; an entry without a name ends a list.
extern const struct fm_query_table fm_query_time_tables[], fm_query_stack_tables[], fm_query_memory_tables[],
	fm_query_trace_tables[], fm_query_about_tables[];

// All of them in the order in which people are shown them.
#define FM_QUERY_MAX_TABLES 32
unsigned fm_query_n_tables(void);
const struct fm_query_table *fm_query_table_at(unsigned i); // NULL beyond the last
const struct fm_query_table *fm_query_table_find(const char *name);

// file, line and function of the line that is charged with what happens in a node; three times NULL
// where no Python is on the stack.
void fm_query_put_payer(struct fm_query_data *d, uint32_t node, struct fm_row *r);

// What a value reads as: text that SQL can hold (no NUL, no undecodable byte). Lives until b changes,
// or as long as the analysis. For values that are text.
struct fm_str fm_query_text(const struct fm_query_data *d, const struct fm_value *value, struct fm_buf *b);
