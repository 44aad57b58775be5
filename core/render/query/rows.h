// SPDX-License-Identifier: Apache-2.0
// What a statement gives, written a page at a time: as a table for people, JSON, CSV or markdown.
// Every piece of text passes the escaping of its format.
#pragma once

#include <stdio.h>

#include "render/query/row.h"
#include "render/shared/style.h"

enum fm_rows_format { FM_ROWS_TABLE, FM_ROWS_JSON, FM_ROWS_CSV, FM_ROWS_MARKDOWN };

struct fm_rows_column {
	char *name;
	const char *type; // INTEGER, REAL, TEXT; NULL: an expression, which has none
	// Of the table, by its first page:
	bool is_number;
	unsigned width, decimals;
};

// A page holds so many rows, or so many bytes of text; only then is something written.
#define FM_ROWS_PAGE 1000u
#define FM_ROWS_PAGE_BYTES ((size_t)16 << 20)

struct fm_rows {
	enum fm_rows_format format;
	FILE *out;
	struct fm_style style;
	struct fm_rows_column *columns;
	unsigned n_columns;
	FM_VEC(struct fm_value) cells; // of the page: null, integer, real or text
	struct fm_arena arena;         // of the page: what text it holds
	size_t n_text_bytes;
	uint64_t n_pages, n_written;
	bool is_upright; // a table that is too wide: a line for each cell
};

// Columns are named by fm_rows_name() before the first row.
void fm_rows_init(struct fm_rows *r, enum fm_rows_format format, FILE *out, const struct fm_view_options *view,
		  unsigned n_columns);
void fm_rows_name(struct fm_rows *r, unsigned column, const char *name, const char *type);
// The cells of one row after the other. The text is copied.
void fm_rows_put(struct fm_rows *r, struct fm_value cell);
void fm_rows_end_row(struct fm_rows *r);
// What is left of the last page, and the end. n_left_out: rows beyond the limit; is_more: there are
// still more than that.
void fm_rows_end(struct fm_rows *r, uint64_t n_left_out, bool is_more);
void fm_rows_deinit(struct fm_rows *r);

// rows_table.c: the page for people.
void fm_rows_table(struct fm_rows *r);

static inline size_t fm_rows_on_page(const struct fm_rows *r)
{
	return r->n_columns ? r->cells.n / r->n_columns : 0;
}
