// SPDX-License-Identifier: Apache-2.0
// A table is scanned, or looked up by one column that has to equal something: SQLite makes no
// indexes of its own for virtual tables, and a join without one is quadratic. So the first lookup in
// a column sorts the numbers of its rows by the hash of what is there. SQLite compares once more:
// what a hash brings by accident is left out.
#include "render/query/vtab.h"

#include <stdlib.h>
#include <string.h>

#include "base/bisect.h"

struct index_entry {
	uint64_t hash;
	uint32_t row;
};

struct index {
	FM_VEC(struct index_entry) entries; // by hash, then row
	bool is_made;
};

struct table {
	sqlite3_vtab base;
	const struct fm_query_table *table;
	unsigned number; // of the table, among all
	struct fm_vtab_source *source;
	struct index indexes[FM_ROW_MAX_COLUMNS];
	struct fm_buf text;
};

struct cursor {
	sqlite3_vtab_cursor base;
	struct fm_row row;
	bool has_row, is_at_end;
	uint64_t pos, end;        // of rows, or of the entries of the index
	const struct index *used; // NULL: every row
	struct fm_reader *reader; // of a table whose rows come one after the other
	struct fm_buf text;
};

static bool is_stream(const struct fm_query_table *t)
{
	return t->begin != NULL;
}

static int connect_table(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **ret,
			 char **ret_error)
{
	const struct fm_query_table *t = fm_query_table_find(argv[2]);
	if (!t)
		return SQLITE_ERROR;
	struct fm_buf sql = { 0 };
	fm_buf_str(&sql, "CREATE TABLE x(");
	for (unsigned c = 0; c < t->n_columns; c++)
		fm_buf_printf(&sql, "%s%s %s", c ? ", " : "", t->columns[c].name, fm_column_types[t->columns[c].type]);
	fm_buf_str(&sql, ")");
	int err = sqlite3_declare_vtab(db, (const char *)sql.data);
	fm_buf_deinit(&sql);
	if (err)
		return err;
	struct table *table = fm_alloc(sizeof(*table));
	table->table = t;
	while (fm_query_table_at(table->number) != t)
		table->number++;
	table->source = aux;
	*ret = &table->base;
	return SQLITE_OK;
}

// Another function than the one above: with one for both, SQLite would know the module's own name as a table, too.
static int create_table(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **ret, char **ret_error)
{
	return connect_table(db, aux, argc, argv, ret, ret_error);
}

static int disconnect_table(sqlite3_vtab *base)
{
	struct table *t = (struct table *)base;
	for (size_t i = 0; i < FM_ARRAY_LEN(t->indexes); i++)
		fm_vec_deinit(&t->indexes[i].entries);
	fm_buf_deinit(&t->text);
	free(t);
	return SQLITE_OK;
}

// How many rows are expected to have one value of a column: one where it is called id.
static double expected_rows(const struct fm_query_table *t, int column)
{
	return strcmp(t->columns[column].name, "id") ? 1 + t->n_guess / 20 : 1;
}

static int best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
	struct table *table = (struct table *)base;
	const struct fm_query_table *t = table->table;
	int best = -1;
	// SQLite asks this of every table that a statement reads; its authorizer is not told of all of them.
	table->source->is_wanted[table->number] = true;
	info->estimatedCost = t->n_guess * (is_stream(t) ? 10 : 1);
	info->estimatedRows = (sqlite3_int64)t->n_guess;
	for (int i = 0; !is_stream(t) && i < info->nConstraint; i++) {
		int column = info->aConstraint[i].iColumn;
		if (!info->aConstraint[i].usable || info->aConstraint[i].op != SQLITE_INDEX_CONSTRAINT_EQ ||
		    column < 0 || strcmp(sqlite3_vtab_collation(info, i), "BINARY"))
			continue;
		double rows = expected_rows(t, column);
		if (best >= 0 && rows >= info->estimatedCost)
			continue;
		best = i;
		info->estimatedCost = rows;
		info->estimatedRows = (sqlite3_int64)rows;
	}
	if (best >= 0) {
		info->idxNum = info->aConstraint[best].iColumn + 1;
		info->aConstraintUsage[best].argvIndex = 1;
	}
	return SQLITE_OK;
}

static int open_cursor(sqlite3_vtab *base, sqlite3_vtab_cursor **ret)
{
	struct cursor *c = fm_alloc(sizeof(*c));
	*ret = &c->base;
	return SQLITE_OK;
}

static int close_cursor(sqlite3_vtab_cursor *base)
{
	struct cursor *c = (struct cursor *)base;
	fm_reader_close(c->reader);
	fm_buf_deinit(&c->text);
	free(c);
	return SQLITE_OK;
}

static struct table *table_of(struct cursor *c)
{
	return (struct table *)c->base.pVtab;
}

static uint64_t hash_number(double value)
{
	uint64_t bits;
	value += 0.0; // -0 and 0 are equal
	memcpy(&bits, &value, sizeof(bits));
	return fm_hash_u64(bits);
}

// False for NULL, which equals nothing.
static bool hash_value(struct table *t, const struct fm_value *value, uint64_t *ret)
{
	if (value->kind == FM_VALUE_NULL)
		return false;
	if (value->kind == FM_VALUE_INTEGER || value->kind == FM_VALUE_REAL) {
		*ret = hash_number(value->kind == FM_VALUE_REAL ? value->real : (double)value->integer);
		return true;
	}
	struct fm_str text = fm_query_text(t->source->data, value, &t->text);
	*ret = fm_hash_bytes(text.p, text.len);
	return true;
}

static int compare_entries(const void *pa, const void *pb)
{
	const struct index_entry *a = pa, *b = pb;
	if (a->hash != b->hash)
		return (a->hash > b->hash) - (a->hash < b->hash);
	return (a->row > b->row) - (a->row < b->row);
}

static const struct index *index_of(struct table *t, unsigned column, uint64_t n_rows)
{
	struct index *index = &t->indexes[column];
	struct fm_row row;
	for (uint64_t i = 0; !index->is_made && i < n_rows; i++) {
		struct index_entry entry = { .row = (uint32_t)i };
		row.n = 0;
		t->table->row(t->source->data, i, &row);
		if (hash_value(t, &row.values[column], &entry.hash))
			fm_vec_push(&index->entries, entry);
	}
	if (!index->is_made && index->entries.n)
		qsort(index->entries.items, index->entries.n, sizeof(*index->entries.items), compare_entries);
	index->is_made = true;
	return index;
}

// Narrows the cursor down to the rows that may equal the value. Values of another kind than the
// column's are for SQLite's own conversions to compare: every row.
static void look_up(struct cursor *c, unsigned column, sqlite3_value *value)
{
	struct table *t = table_of(c);
	bool is_text = sqlite3_value_type(value) == SQLITE_TEXT;
	uint64_t hash = 0;
	switch (sqlite3_value_type(value)) {
	case SQLITE_NULL:
		c->end = 0;
		return;
	case SQLITE_INTEGER:
	case SQLITE_FLOAT:
		hash = hash_number(sqlite3_value_double(value));
		break;
	case SQLITE_TEXT: {
		const unsigned char *text = sqlite3_value_text(value);
		hash = fm_hash_bytes(text ? (const char *)text : "", (size_t)sqlite3_value_bytes(value));
		break;
	}
	default:
		return;
	}
	if (is_text != (t->table->columns[column].type == FM_COLUMN_TEXT))
		return;
	c->used = index_of(t, column, c->end);
	const struct index_entry *entries = c->used->entries.items;
	c->pos = fm_bisect(c->used->entries.n, i, entries[i].hash < hash);
	c->end = fm_bisect(c->used->entries.n, i, entries[i].hash <= hash);
}

static int fail(struct cursor *c, struct fm_diag *diag)
{
	sqlite3_free(c->base.pVtab->zErrMsg);
	c->base.pVtab->zErrMsg = sqlite3_mprintf("%s", diag->text);
	return SQLITE_ERROR;
}

static int next_of_stream(struct cursor *c)
{
	struct table *t = table_of(c);
	c->row.n = 0;
	enum fm_err err = t->table->next(t->source->data, c->reader, &c->row);
	c->has_row = !err;
	c->is_at_end = err == FM_E_END;
	if (!err || err == FM_E_END)
		return SQLITE_OK;
	fm_diag_set(t->source->diag, err, "cannot read the capture once more: %s", fm_err_text(err));
	return fail(c, t->source->diag);
}

static int filter(sqlite3_vtab_cursor *base, int column, const char *unused, int argc, sqlite3_value **argv)
{
	struct cursor *c = (struct cursor *)base;
	struct table *t = table_of(c);
	fm_reader_close(c->reader);
	c->reader = NULL;
	c->used = NULL;
	c->has_row = c->is_at_end = false;
	c->pos = 0;
	if (!t->source->data || (t->table->parts & ~t->source->parts)) {
		fm_diag_set(t->source->diag, FM_E_UNSUPPORTED, "the table %s was not read", t->table->name);
		return fail(c, t->source->diag);
	}
	if (is_stream(t->table)) {
		if (t->table->begin(t->source->data, &c->reader, t->source->diag))
			return fail(c, t->source->diag);
		return next_of_stream(c);
	}
	c->end = t->table->count(t->source->data);
	if (column > 0 && argc == 1)
		look_up(c, (unsigned)column - 1, argv[0]);
	return SQLITE_OK;
}

static int next(sqlite3_vtab_cursor *base)
{
	struct cursor *c = (struct cursor *)base;
	c->pos++;
	if (c->reader)
		return next_of_stream(c);
	c->has_row = false;
	return SQLITE_OK;
}

static int is_eof(sqlite3_vtab_cursor *base)
{
	const struct cursor *c = (struct cursor *)base;
	return c->reader ? c->is_at_end : c->pos >= c->end;
}

static uint64_t row_number(const struct cursor *c)
{
	return c->used ? c->used->entries.items[c->pos].row : c->pos;
}

static int column(sqlite3_vtab_cursor *base, sqlite3_context *ctx, int i)
{
	struct cursor *c = (struct cursor *)base;
	struct table *t = table_of(c);
	if (!c->has_row) {
		c->row.n = 0;
		t->table->row(t->source->data, row_number(c), &c->row);
		c->has_row = true;
	}
	const struct fm_value *value = &c->row.values[i];
	switch (value->kind) {
	case FM_VALUE_NULL:
		sqlite3_result_null(ctx);
		return SQLITE_OK;
	case FM_VALUE_INTEGER:
		sqlite3_result_int64(ctx, value->integer);
		return SQLITE_OK;
	case FM_VALUE_REAL:
		sqlite3_result_double(ctx, value->real);
		return SQLITE_OK;
	default:
		break;
	}
	struct fm_str text = fm_query_text(t->source->data, value, &c->text);
	bool is_made = text.p == (const char *)c->text.data; // else it lives as long as the analysis
	sqlite3_result_text(ctx, text.p, (int)text.len, is_made ? SQLITE_TRANSIENT : SQLITE_STATIC);
	return SQLITE_OK;
}

static int rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *ret)
{
	*ret = (sqlite3_int64)row_number((struct cursor *)base);
	return SQLITE_OK;
}

static const sqlite3_module module = {
	.xCreate = create_table,
	.xConnect = connect_table,
	.xBestIndex = best_index,
	.xDisconnect = disconnect_table,
	.xDestroy = disconnect_table,
	.xOpen = open_cursor,
	.xClose = close_cursor,
	.xFilter = filter,
	.xNext = next,
	.xEof = is_eof,
	.xColumn = column,
	.xRowid = rowid,
};

enum fm_err fm_vtab_create_all(sqlite3 *db, struct fm_vtab_source *source, struct fm_diag *diag)
{
	int err = sqlite3_create_module(db, "fathom", &module, source);
	const struct fm_query_table *t;
	for (unsigned i = 0; !err && (t = fm_query_table_at(i)); i++) {
		char sql[128];
		snprintf(sql, sizeof(sql), "CREATE VIRTUAL TABLE %s USING fathom", t->name);
		err = sqlite3_exec(db, sql, NULL, NULL, NULL);
	}
	return err ? fm_diag_set(diag, FM_E_UNSUPPORTED, "SQLite refuses the tables: %s", sqlite3_errmsg(db)) : FM_OK;
}
