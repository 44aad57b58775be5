// fathom report: what a capture says, for people or (--json) for machines.
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/owner.h"
#include "cli/captures.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/history.h"
#include "cli/load_runs.h"
#include "cli/options.h"
#include "cli/text_options.h"
#include "render/calls.h"
#include "render/explain.h"
#include "render/render.h"

// The means over repeated runs, below the report of the first.
static enum fm_err add_runs(const struct fm_captures *captures, const char *out, const struct fm_view_options *view,
			    struct fm_diag *diag)
{
	if (!out)
		return fm_report_runs(stdout, captures, view, diag);
	_cleanup_fclose_ FILE *file = fm_fopen_private(out, true);
	if (!file)
		return fm_diag_set(diag, FM_E_IO, "cannot write %s: %s", out, strerror(errno));
	return fm_report_runs(file, captures, view, diag);
}

int fm_cmd_report(int argc, char **argv)
{
	struct fm_view_options view = FM_VIEW_OPTIONS_DEFAULT;
	bool is_json = false, is_explain = false;
	const char *out = NULL, *history = NULL, *function = NULL, *output_dir = ".fathom";
	struct fm_text_flags flags = FM_TEXT_FLAGS_DEFAULT;
	const struct fm_option options[] = {
		{ "json", 0, FM_OPT_FLAG, &is_json, NULL,
		  "the same as JSON, schema fathom.report/1, with every function and line" },
		{ "summary", 0, FM_OPT_FLAG, &view.summary_only, NULL, "without the line tables" },
		{ "explain", 0, FM_OPT_FLAG, &is_explain, NULL,
		  "what each number means, in plain words; needs no profile" },
		{ "history", 0, FM_OPT_TEXT, &history, "NAME", "list the dated runs of a script with their totals" },
		{ "output-dir", 0, FM_OPT_TEXT, &output_dir, "DIR", "where --history looks (default: .fathom)" },
		{ "output", 'o', FM_OPT_TEXT, &out, "FILE", "write there instead of to standard output" },
		{ "function", 0, FM_OPT_TEXT, &function, "NAME",
		  "of a trace: one function's calls, how long they took, callers and callees" },
		{ "detailed", 0, FM_OPT_FLAG, &view.detailed, NULL,
		  "libraries and files below 1%, too; without it the time of libraries goes to the line of your code "
		  "that "
		  "called them" },
		{ "native-all", 0, FM_OPT_FLAG, &view.native_all, NULL,
		  "show the interpreter's own native frames, which are folded away otherwise" },
		{ "no-inlines", 0, FM_OPT_FLAG, &view.no_inlines, NULL,
		  "leave inlined calls inside the function that the compiler put them into" },
		{ "full-filenames", 0, FM_OPT_FLAG, &view.full_filenames, NULL,
		  "whole paths in the tables of functions" },
		FM_TEXT_OPTIONS(&flags, "rows in the tables of functions (default 10)"),
		{ 0 },
	};
	const struct fm_usage usage = {
		.command = "report",
		.operands = "PROFILE",
		.about = "Print where the time and memory of a capture went: by function, module, kind and line, with "
			 "95% "
			 "intervals.",
		.options = options,
		.examples = "  fathom report profile.fathom\n"
			    "  fathom report --explain\n"
			    "  fathom report --history script.py\n"
			    "  fathom report --top 30 --detailed profile.fathom\n"
			    "  fathom report --function parse trace.fathom\n"
			    "  fathom report --json profile.fathom | jq '.functions[0]'\n",
		.max_operands = 1,
	};
	struct fm_operands ops;
	int exit_code;
	if (!fm_options_parse(&usage, argc, argv, &ops, &exit_code))
		return exit_code;
	fm_text_flags_apply(&flags, &view);
	struct fm_diag diag;
	if (history) {
		if (!fm_history_print(output_dir, history, &diag))
			return FM_EXIT_OK;
		fm_say("%s", diag.text);
		return FM_EXIT_FAILED;
	}
	if (!ops.n && !is_explain) {
		fm_say("name the profile to report; 'fathom report --help' has examples");
		return FM_EXIT_USAGE;
	}
	if (!ops.n) {
		fm_explain_write(stdout, &view);
		return FM_EXIT_OK;
	}
	if (function) {
		if (!fm_calls_write_function(stdout, ops.v[0], function, &view, &diag))
			return FM_EXIT_OK;
		fm_say("%s", diag.text);
		return FM_EXIT_FAILED;
	}
	struct fm_captures captures;
	enum fm_err err = fm_captures_find(&captures, ops.v[0], &diag);
	if (!err)
		err = fm_render_write(is_json ? "json" : "text", captures.paths.items[0], out, &view, &diag);
	if (!err && captures.paths.n > 1 && !is_json)
		err = add_runs(&captures, out, &view, &diag);
	else if (!err && captures.paths.n > 1)
		fm_say("this is the first of %zu runs; without --json their means are shown, and 'fathom diff --json' "
		       "compares sets of "
		       "runs",
		       captures.paths.n);
	if (err)
		fm_say("%s", diag.text);
	else if (is_explain && !is_json && !out) {
		putchar('\n');
		fm_explain_write(stdout, &view);
	}
	fm_captures_deinit(&captures);
	return err ? FM_EXIT_FAILED : FM_EXIT_OK;
}
