// SPDX-License-Identifier: Apache-2.0
// fathom query: a capture by SQL.
#include "base/cleanup.h"
#include "base/log.h"
#include "cli/captures/captures.h"
#include "cli/commands/commands.h"
#include "cli/options/groups.h"
#include "cli/options/options.h"
#include "render/query/query.h"

// What the command line says. A program runs one command once.
static struct {
	struct fm_query_options query;
	struct fm_text_flags flags;
	bool is_tables, is_json, is_csv, is_markdown;
	const char *out, *max_memory;
} o = { .flags = FM_TEXT_FLAGS_DEFAULT };

static const struct fm_option options[] = {
	{ "tables", 0, FM_OPT_FLAG, &o.is_tables, NULL,
	  "list the tables and what each column means; needs no profile; --json for machines" },
	{ "json", 0, FM_OPT_FLAG, &o.is_json, NULL, "print JSON, schema fathom.query/1" },
	{ "csv", 0, FM_OPT_FLAG, &o.is_csv, NULL, "print CSV, with the names of the columns in the first line" },
	{ "markdown", 0, FM_OPT_FLAG, &o.is_markdown, NULL, "print a Markdown table" },
	{ "limit", 'n', FM_OPT_UINT, &o.query.limit, "ROWS",
	  "write at most ROWS rows (default 50; 0 = all); standard error says what was left out" },
	{ "output", 'o', FM_OPT_TEXT, &o.out, "FILE", "write there instead of to standard output" },
	{ "timeout", 0, FM_OPT_REAL, &o.query.timeout_s, "SECONDS",
	  "CPU time that the statement may take (default 30)" },
	{ "max-memory", 0, FM_OPT_TEXT, &o.max_memory, "SIZE", "how much memory SQLite may use for it (default 1G)" },
	{ "detailed", 0, FM_OPT_FLAG, &o.query.view.detailed, NULL,
	  "include lines of libraries; otherwise their time counts for the line of your code that called them" },
	{ "native-all", 0, FM_OPT_FLAG, &o.query.view.native_all, NULL,
	  "keep the interpreter's own native frames, which are otherwise folded away" },
	{ "no-inlines", 0, FM_OPT_FLAG, &o.query.view.no_inlines, NULL,
	  "attribute inlined calls to the function that contains them" },
	{ "full-filenames", 0, FM_OPT_FLAG, &o.query.view.full_filenames, NULL,
	  "show full paths in the text of stacks" },
	{ "width", 0, FM_OPT_UINT, &o.flags.width, "COLUMNS",
	  "width of the table (default: the terminal's, else 100)" },
	{ "color", 0, FM_OPT_CHOICE, &o.flags.color, "auto|never|always",
	  "auto colours a terminal unless NO_COLOR is set" },
	{ 0 },
};
static const struct fm_usage usage = {
	.command = "query",
	.operands = "PROFILE \"SELECT ...\"",
	.about = "Query a capture with SQL: one SELECT over its tables, in SQLite's dialect. The capture is not "
		 "changed.",
	.options = options,
	.examples =
		"  fathom query --tables\n"
		"  fathom query profile.fathom \"SELECT name, self_s FROM functions ORDER BY self_s DESC LIMIT 10\"\n"
		"  fathom query profile.fathom \"SELECT file, sum(total_s) FROM lines GROUP BY file\"\n"
		"  fathom query --csv -n 0 -o waits.csv profile.fathom \"SELECT * FROM waits\"\n",
	.max_operands = 2,
};

static enum fm_rows_format format(void)
{
	return o.is_json ? FM_ROWS_JSON : o.is_csv ? FM_ROWS_CSV : o.is_markdown ? FM_ROWS_MARKDOWN : FM_ROWS_TABLE;
}

static void say_end(const struct fm_query_end *end)
{
	unsigned long long n = end->n_rows, of = end->n_rows + end->n_left_out;
	for (unsigned i = 0; i < FM_QUERY_MAX_NOTES && end->notes[i]; i++)
		fm_say("%s", end->notes[i]);
	if (end->is_more)
		fm_say("the first %llu of more than %llu rows; -n ROWS gives more of them, -n 0 all", n, of);
	else if (end->n_left_out)
		fm_say("the first %llu of %llu rows; -n ROWS gives more of them, -n 0 all", n, of);
}

static int run(const char *path, const char *sql)
{
	struct fm_diag diag;
	struct fm_query_end end;
	_cleanup_free_ char *profile = NULL;
	enum fm_err err = fm_query_check(sql, &o.query, &diag); // another tool's file may take a while to read
	if (!err)
		err = fm_captures_find_one(path, &profile, &diag);
	if (!err)
		err = fm_query_run(sql, profile, o.out, &o.query, &end, &diag);
	if (err) {
		fm_say("%s", diag.text);
		return err == FM_E_USAGE ? FM_EXIT_USAGE : FM_EXIT_FAILED;
	}
	say_end(&end);
	return FM_EXIT_OK;
}

int fm_cmd_query(int argc, char **argv)
{
	o.query = (struct fm_query_options){ .limit = FM_QUERY_LIMIT,
					     .timeout_s = FM_QUERY_TIMEOUT_S,
					     .max_bytes = FM_QUERY_MEMORY,
					     .view = FM_VIEW_OPTIONS_DEFAULT };
	struct fm_operands ops;
	int exit_code;
	if (!fm_options_parse(&usage, argc, argv, &ops, &exit_code))
		return exit_code;
	fm_text_flags_apply(&o.flags, &o.query.view);
	o.query.format = format();
	if (o.is_json + o.is_csv + o.is_markdown > 1) {
		fm_say("give one of --json, --csv and --markdown");
		return FM_EXIT_USAGE;
	}
	if (o.max_memory && !(o.query.max_bytes = fm_size_parse(o.max_memory))) {
		fm_say("--max-memory wants a size such as 500M, not '%s'", o.max_memory);
		return FM_EXIT_USAGE;
	}
	if (o.is_tables) {
		if (o.is_json)
			fm_query_print_tables_json(stdout);
		else
			fm_query_print_tables(stdout, &o.query.view);
		return FM_EXIT_OK;
	}
	if (ops.n != 2) {
		fm_say("name the profile and give one SELECT; 'fathom query --help' has examples");
		return FM_EXIT_USAGE;
	}
	return run(ops.v[0], ops.v[1]);
}
