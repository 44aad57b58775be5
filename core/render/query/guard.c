// SPDX-License-Identifier: Apache-2.0
#include "render/query/guard.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"

#define STEPS_PER_LOOK 1000 // of SQLite's machine: well below a millisecond
#define SECONDS_OF_GRACE 2  // for a single function, beyond the statement's own time

// Each is far above what a statement over these tables needs.
static const struct {
	int what, most;
} limits[] = {
	{ SQLITE_LIMIT_SQL_LENGTH, FM_QUERY_MAX_SQL },
	{ SQLITE_LIMIT_LENGTH, 64 << 20 }, // of one value: sources are large, and so is what group_concat makes
	{ SQLITE_LIMIT_COLUMN, 200 },
	{ SQLITE_LIMIT_EXPR_DEPTH, 200 },
	{ SQLITE_LIMIT_COMPOUND_SELECT, 50 },
	{ SQLITE_LIMIT_FUNCTION_ARG, 100 },
	{ SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1000 },
	{ SQLITE_LIMIT_TRIGGER_DEPTH, 1 },
	{ SQLITE_LIMIT_WORKER_THREADS, 0 },
};

static bool is_one_of(const char *name, const char *const *list)
{
	for (; *list; list++)
		if (!strcasecmp(name, *list))
			return true;
	return false;
}

static int authorize(void *ctx, int action, const char *what, const char *detail, const char *db, const char *inner)
{
	static const char *const pragmas[] = { "table_info", "table_xinfo", "table_list", NULL };
	static const char *const functions[] = { "load_extension", "fts3_tokenizer", "readfile", "writefile", NULL };
	struct fm_guard *g = ctx;
	switch (action) {
	case SQLITE_SELECT:
	case SQLITE_RECURSIVE:
	case SQLITE_READ:
		return SQLITE_OK;
	case SQLITE_FUNCTION:
		if (!is_one_of(detail, functions))
			return SQLITE_OK;
		g->refused = "functions of files are not allowed";
		return SQLITE_DENY;
	case SQLITE_PRAGMA:
		if (is_one_of(what, pragmas))
			return SQLITE_OK;
		g->refused = "only the PRAGMAs table_info and table_list are allowed";
		return SQLITE_DENY;
	case SQLITE_ATTACH:
		g->refused = "ATTACH is not allowed";
		return SQLITE_DENY;
	default:
		g->refused = "give one SELECT";
		return SQLITE_DENY;
	}
}

static int look_at_clock(void *ctx)
{
	struct fm_guard *g = ctx;
	g->is_late = fm_clock_ns(CLOCK_PROCESS_CPUTIME_ID) > g->deadline_ns;
	return g->is_late;
}

enum fm_err fm_guard_open(struct fm_guard *g, uint64_t max_bytes, struct fm_diag *diag)
{
	*g = (struct fm_guard){ 0 };
	if (sqlite3_open_v2(":memory:", &g->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_MEMORY | SQLITE_OPEN_NOMUTEX, NULL))
		return fm_diag_set(diag, FM_E_UNSUPPORTED, "SQLite cannot be started: %s",
				   g->db ? sqlite3_errmsg(g->db) : "no memory");
	sqlite3_hard_heap_limit64((sqlite3_int64)FM_MIN(max_bytes, (uint64_t)INT64_MAX));
	// What is sorted stays in memory, and within its limit: no temporary file has a stranger's data in it.
	sqlite3_exec(g->db, "PRAGMA temp_store = MEMORY", NULL, NULL, NULL);
	return FM_OK;
}

void fm_guard_close_in(struct fm_guard *g)
{
	// Tables of SQLite's own are made when they are first named, which the guard would refuse. An older SQLite
	// lacks some.
	static const char *const own_tables[] = { "json_each('[]')", "json_tree('[]')", "pragma_table_info('meta')",
						  "pragma_table_xinfo('meta')", "pragma_table_list" };
	for (size_t i = 0; i < FM_ARRAY_LEN(own_tables); i++) {
		char sql[64];
		snprintf(sql, sizeof(sql), "SELECT 1 FROM %s", own_tables[i]);
		sqlite3_exec(g->db, sql, NULL, NULL, NULL);
	}
	for (size_t i = 0; i < FM_ARRAY_LEN(limits); i++)
		sqlite3_limit(g->db, limits[i].what, limits[i].most);
	// A name in double quotes that is no column is a mistake, and no text.
	sqlite3_db_config(g->db, SQLITE_DBCONFIG_DQS_DML, 0, NULL);
	sqlite3_db_config(g->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(g->db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, NULL);
	sqlite3_exec(g->db, "PRAGMA query_only = 1", NULL, NULL, NULL);
	sqlite3_set_authorizer(g->db, authorize, g);
}

static void end_late(int signal)
{
	static const char line[] = "fathom: the statement took too long; narrow it down, or set a longer --timeout\n";
	ssize_t ignored = write(STDERR_FILENO, line, sizeof(line) - 1);
	(void)ignored;
	_exit(1);
}

// CPU time, as a busy machine is not the statement's fault.
static void set_timer(double seconds)
{
	struct itimerval timer = { .it_value = { .tv_sec = (time_t)ceil(seconds) } };
	setitimer(ITIMER_PROF, &timer, NULL);
}

void fm_guard_start(struct fm_guard *g, double timeout_s)
{
	double most_s = 1e6; // two weeks are no limit any more
	timeout_s = fmin(timeout_s, most_s);
	g->deadline_ns = fm_clock_ns(CLOCK_PROCESS_CPUTIME_ID) + (uint64_t)(timeout_s * 1e9);
	sqlite3_progress_handler(g->db, STEPS_PER_LOOK, look_at_clock, g);
	signal(SIGPROF, end_late);
	set_timer(timeout_s + SECONDS_OF_GRACE);
}

void fm_guard_stop(struct fm_guard *g)
{
	set_timer(0);
	signal(SIGPROF, SIG_DFL);
	sqlite3_progress_handler(g->db, 0, NULL, NULL);
}

void fm_guard_deinit(struct fm_guard *g)
{
	sqlite3_close(g->db);
	sqlite3_hard_heap_limit64(0); // it is one for the whole process
	g->db = NULL;
}
