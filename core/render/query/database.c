// SPDX-License-Identifier: Apache-2.0
// export -f sqlite: the tables of queries in a database file.
//
// SQLite writes to a path, and back and forth in it; an output is a stream, and may be a pipe. So
// the database is made in a private temporary file and then copied: what stands at the path that the
// user named is never half a database.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/owner.h"
#include "render/query/vtab.h"
#include "render/shared/formats.h"

static int run(sqlite3 *db, int err, const char *sql)
{
	return err ? err : sqlite3_exec(db, sql, NULL, NULL, NULL);
}

static int copy_table(sqlite3 *db, const struct fm_query_table *t)
{
	struct fm_buf sql = { 0 };
	fm_buf_printf(&sql, "CREATE TABLE file.%s(", t->name);
	for (unsigned c = 0; c < t->n_columns; c++)
		fm_buf_printf(&sql, "%s%s %s", c ? ", " : "", t->columns[c].name, fm_column_types[t->columns[c].type]);
	fm_buf_printf(&sql, "); INSERT INTO file.%s SELECT * FROM main.%s", t->name, t->name);
	int err = run(db, SQLITE_OK, (const char *)sql.data);
	fm_buf_deinit(&sql);
	return err;
}

static int attach(sqlite3 *db, const char *path)
{
	char *sql = sqlite3_mprintf("ATTACH %Q AS file", path);
	int err = run(db, SQLITE_OK, sql);
	sqlite3_free(sql);
	// Nobody else sees the file, and it is thrown away when anything goes wrong: no journal.
	return run(db, err, "PRAGMA file.journal_mode = OFF; PRAGMA file.synchronous = OFF; BEGIN");
}

static enum fm_err fill(const char *path, struct fm_query_data *data, struct fm_diag *diag)
{
	sqlite3 *db = NULL;
	struct fm_diag of_file = { { 0 } };
	struct fm_vtab_source source = { .data = data,
					 .diag = &of_file,
					 .parts = FM_ANALYSIS_STACKS | FM_ANALYSIS_CALLS };
	const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE |
			  SQLITE_OPEN_NOMUTEX; // MEMORY would count for the file, too
	int code = sqlite3_open_v2(":memory:", &db, flags, NULL);
	enum fm_err err = code ? FM_E_UNSUPPORTED : fm_vtab_create_all(db, &source, diag);
	if (!err) {
		code = attach(db, path);
		const struct fm_query_table *t;
		for (unsigned i = 0; !code && (t = fm_query_table_at(i)); i++)
			code = copy_table(db, t);
		code = run(db, code, "COMMIT");
	}
	if (code)
		err = fm_diag_set(diag, FM_E_IO,
				  "cannot make the database in a temporary file: %s; set TMPDIR to another folder",
				  of_file.text[0] ? of_file.text
				  : db            ? sqlite3_errmsg(db)
						  : "no memory");
	sqlite3_close(db);
	return err;
}

static enum fm_err copy_out(FILE *from, FILE *out, struct fm_diag *diag)
{
	char block[65536];
	size_t n;
	rewind(from);
	while ((n = fread(block, 1, sizeof(block), from)) > 0)
		fwrite(block, 1, n, out);
	return ferror(from) ? fm_diag_set(diag, FM_E_IO, "cannot read a temporary file: %s", strerror(errno)) : FM_OK;
}

enum fm_err fm_write_sqlite(FILE *out, struct fm_analysis *a, struct fm_diag *diag)
{
	char path[4096];
	enum fm_err err = fm_temporary_make(path, sizeof(path), diag);
	if (err)
		return err;
	_cleanup_fclose_ FILE *database = fopen(path, "re");
	struct fm_query_data data;
	fm_query_data_init(&data, a);
	err = database ? fill(path, &data, diag)
		       : fm_diag_set(diag, FM_E_IO, "cannot open a temporary file: %s", strerror(errno));
	fm_query_data_deinit(&data);
	unlink(path);
	return err ? err : copy_out(database, out, diag);
}
