// SPDX-License-Identifier: Apache-2.0
// The tables as SQLite sees them: virtual ones, which read what an analysis holds and copy nothing
// (docs/decisions/0016-queries-are-sqlite.md).
#pragma once

#include <sqlite3.h>

#include "render/query/tables.h"

// What the tables of one connection show. data is there before a statement is stepped; none is
// needed to prepare one.
struct fm_vtab_source {
	bool is_wanted[FM_QUERY_MAX_TABLES]; // set while a statement is prepared: the tables that it reads
	struct fm_query_data *data;
	enum fm_analysis_parts parts; // that were read for it
	struct fm_diag *diag;         // of a file that cannot be read once more
};

// Makes every table in the connection. source outlives it.
FM_MUST_CHECK enum fm_err fm_vtab_create_all(sqlite3 *db, struct fm_vtab_source *source, struct fm_diag *diag);
