// SPDX-License-Identifier: Apache-2.0
#include "render/query/query.h"

#include <string.h>

#include "render/query/guard.h"
#include "render/query/hint.h"
#include "render/query/vtab.h"
#include "render/shared/destination.h"

// How many rows beyond the limit are counted, so that the user learns what was left out.
#define MAX_COUNTED 100000u

struct query {
	const char *sql;
	struct fm_guard guard;
	struct fm_vtab_source source;
	struct fm_query_data data;
	struct fm_analysis *a;
	sqlite3_stmt *stmt;
};

static enum fm_err refuse(const struct query *q, struct fm_diag *diag)
{
	return fm_diag_set(diag, FM_E_USAGE, "a query only reads; %s", q->guard.refused);
}

// What SQLite says went wrong, whether the statement is to blame or not.
static enum fm_err failed(const struct query *q, int code, double timeout_s, struct fm_diag *diag)
{
	if (q->guard.refused)
		return refuse(q, diag);
	if (q->guard.is_late)
		return fm_diag_set(
			diag, FM_E_TOO_LARGE,
			"the statement took longer than %g s of CPU time; narrow it down, or set a longer --timeout",
			timeout_s);
	if (code == SQLITE_NOMEM)
		return fm_diag_set(diag, FM_E_TOO_LARGE,
				   "the statement needs more memory than it may use; narrow it down, or allow more "
				   "with --max-memory");
	if (q->source.diag->text[0])
		return fm_diag_set(diag, FM_E_IO, "%s", q->source.diag->text);
	return fm_query_explain(sqlite3_errmsg(q->guard.db), q->sql, diag);
}

static enum fm_err prepare(struct query *q, struct fm_diag *diag)
{
	const char *rest;
	if (strlen(q->sql) > FM_QUERY_MAX_SQL)
		return fm_diag_set(diag, FM_E_USAGE, "the statement is longer than %u bytes", FM_QUERY_MAX_SQL);
	int code = sqlite3_prepare_v3(q->guard.db, q->sql, -1, 0, &q->stmt, &rest);
	if (code)
		return failed(q, code, 0, diag);
	if (!q->stmt)
		return fm_diag_set(diag, FM_E_USAGE, "there is no statement; 'fathom query --help' has examples");
	if (!sqlite3_stmt_readonly(q->stmt) || !sqlite3_column_count(q->stmt))
		return fm_diag_set(diag, FM_E_USAGE, "a query only reads; give one SELECT");
	sqlite3_stmt *second = NULL;
	code = sqlite3_prepare_v3(q->guard.db, rest, -1, 0, &second, NULL);
	bool is_second = code || second;
	sqlite3_finalize(second);
	return is_second ? fm_diag_set(diag, FM_E_USAGE, "give one statement, and nothing after it") : FM_OK;
}

static enum fm_err open_capture(struct query *q, const char *path, const struct fm_query_options *options,
				struct fm_diag *diag)
{
	enum fm_analysis_parts parts = FM_ANALYSIS_TOTALS;
	const struct fm_query_table *t;
	for (unsigned i = 0; (t = fm_query_table_at(i)); i++)
		parts |= q->source.is_wanted[i] ? t->parts : 0;
	struct fm_reader *reader;
	enum fm_err err = fm_reader_open(path, &reader, diag);
	if (!err)
		err = fm_analysis_read(reader, &options->view, parts, NULL, &q->a, diag);
	if (err)
		return err;
	fm_query_data_init(&q->data, q->a);
	q->source.data = &q->data;
	q->source.parts = parts;
	return FM_OK;
}

static struct fm_value cell_of(sqlite3_stmt *stmt, int column, struct fm_buf *hex)
{
	switch (sqlite3_column_type(stmt, column)) {
	case SQLITE_INTEGER:
		return (struct fm_value){ .kind = FM_VALUE_INTEGER, .integer = sqlite3_column_int64(stmt, column) };
	case SQLITE_FLOAT:
		return (struct fm_value){ .kind = FM_VALUE_REAL, .real = sqlite3_column_double(stmt, column) };
	case SQLITE_TEXT: {
		const char *text = (const char *)sqlite3_column_text(stmt, column);
		uint32_t len = (uint32_t)sqlite3_column_bytes(stmt, column);
		return (struct fm_value){ .kind = FM_VALUE_TEXT, .text = { text ? text : "", text ? len : 0 } };
	}
	case SQLITE_BLOB: { // of the statement's own making: no column holds any
		const uint8_t *bytes = sqlite3_column_blob(stmt, column);
		hex->len = 0;
		if (bytes)
			fm_buf_hex(hex, bytes, (size_t)sqlite3_column_bytes(stmt, column));
		return (struct fm_value){ .kind = FM_VALUE_TEXT,
					  .text = { hex->len ? (const char *)hex->data : "", (uint32_t)hex->len } };
	}
	default:
		return (struct fm_value){ .kind = FM_VALUE_NULL };
	}
}

// Rows up to the limit are written, the others counted, some of them.
static int step_through(struct query *q, struct fm_rows *rows, uint64_t limit, struct fm_query_end *end)
{
	struct fm_buf hex = { 0 };
	int code, n_columns = sqlite3_column_count(q->stmt);
	while ((code = sqlite3_step(q->stmt)) == SQLITE_ROW) {
		if (limit && end->n_rows == limit) {
			end->n_left_out++;
			end->is_more = end->n_left_out > MAX_COUNTED;
			if (end->is_more) {
				end->n_left_out--;
				break;
			}
			continue;
		}
		for (int c = 0; c < n_columns; c++)
			fm_rows_put(rows, cell_of(q->stmt, c, &hex));
		fm_rows_end_row(rows);
		end->n_rows++;
	}
	fm_buf_deinit(&hex);
	// Time or memory that only the counting wanted is no failure: what was asked for is there.
	if (code != SQLITE_DONE && code != SQLITE_ROW && end->n_left_out)
		end->is_more = true;
	return end->is_more || code == SQLITE_DONE ? SQLITE_OK : code;
}

static void note_empty(struct query *q, struct fm_query_end *end)
{
	const struct fm_query_table *t;
	unsigned n = 0;
	for (unsigned i = 0; (t = fm_query_table_at(i)) && n + 1 < FM_QUERY_MAX_NOTES; i++)
		if (q->source.is_wanted[i] && t->lacks && !t->count(&q->data) && (!n || end->notes[n - 1] != t->lacks))
			end->notes[n++] = t->lacks;
}

static enum fm_err run(struct query *q, FILE *out, const struct fm_query_options *options, struct fm_query_end *end,
		       struct fm_diag *diag)
{
	struct fm_rows rows;
	unsigned n_columns = (unsigned)sqlite3_column_count(q->stmt);
	fm_rows_init(&rows, options->format, out, &options->view, n_columns);
	for (unsigned c = 0; c < n_columns; c++)
		fm_rows_name(&rows, c, sqlite3_column_name(q->stmt, (int)c), sqlite3_column_decltype(q->stmt, (int)c));
	fm_guard_start(&q->guard, options->timeout_s);
	int code = step_through(q, &rows, options->limit, end);
	enum fm_err err = code ? failed(q, code, options->timeout_s, diag) : FM_OK;
	fm_guard_stop(&q->guard);
	if (!err) {
		fm_rows_end(&rows, end->n_left_out, end->is_more);
		note_empty(q, end);
	}
	fm_rows_deinit(&rows);
	return err;
}

// The statement, as SQLite understands it.
static enum fm_err begin(struct query *q, const struct fm_query_options *options, struct fm_diag *diag)
{
	enum fm_err err = fm_guard_open(&q->guard, options->max_bytes, diag);
	if (!err)
		err = fm_vtab_create_all(q->guard.db, &q->source, diag);
	if (err)
		return err;
	fm_guard_close_in(&q->guard);
	return prepare(q, diag);
}

static void end(struct query *q)
{
	sqlite3_finalize(q->stmt);
	fm_guard_deinit(&q->guard);
	if (q->source.data)
		fm_query_data_deinit(&q->data);
	fm_analysis_close(q->a);
}

enum fm_err fm_query_check(const char *sql, const struct fm_query_options *options, struct fm_diag *diag)
{
	struct fm_diag of_file = { { 0 } };
	struct query q = { .sql = sql, .source = { .diag = &of_file } };
	enum fm_err err = begin(&q, options, diag);
	end(&q);
	return err;
}

enum fm_err fm_query_run(const char *sql, const char *profile_path, const char *out_path,
			 const struct fm_query_options *options, struct fm_query_end *ret, struct fm_diag *diag)
{
	struct fm_destination out;
	struct fm_diag of_file = { { 0 } };
	struct query q = { .sql = sql, .source = { .diag = &of_file } };
	*ret = (struct fm_query_end){ 0 };
	enum fm_err err = begin(&q, options, diag);
	if (!err)
		err = open_capture(&q, profile_path, options, diag);
	if (!err)
		err = fm_destination_open(out_path, profile_path, &out, diag);
	if (!err)
		err = fm_destination_close(&out, run(&q, out.file, options, ret, diag), diag);
	end(&q);
	return err;
}
