// SPDX-License-Identifier: Apache-2.0
// fathom report: what a capture says, for people or (--json) for machines.
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/owner.h"
#include "cli/captures/captures.h"
#include "cli/options/options.h"
#include "cli/commands/commands.h"
#include "cli/project/project.h"
#include "cli/options/groups.h"
#include "render/text/text.h"
#include "render/render.h"

// The means over repeated runs, below the report of all of them.
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

// What the command line says. A program runs one command once.
static struct {
	struct fm_view_options view;
	struct fm_text_flags flags;
	bool is_json, is_explain, is_summary, is_full, is_tree;
	const char *out, *history, *function, *output_dir;
} o = { .flags = FM_TEXT_FLAGS_DEFAULT };

static const struct fm_option options[] = {
	{ "json", 0, FM_OPT_FLAG, &o.is_json, NULL,
	  "the same as JSON, schema fathom.report/1, with every function and line" },
	{ "summary", 0, FM_OPT_FLAG, &o.is_summary, NULL, "the first screen alone, as 'fathom run' prints it" },
	{ "tree", 0, FM_OPT_FLAG, &o.is_tree, NULL,
	  "the call tree of your code; each package that it calls is one line, and so are imports" },
	{ "full", 0, FM_OPT_FLAG, &o.is_full, NULL, "everything, which is the default here" },
	{ "explain", 0, FM_OPT_FLAG, &o.is_explain, NULL, "what each number means, in plain words; needs no profile" },
	{ "history", 0, FM_OPT_TEXT, &o.history, "NAME", "list the dated runs of a script with their totals" },
	{ "output-dir", 0, FM_OPT_TEXT, &o.output_dir, "DIR",
	  "the folder that --history searches (default: the project's .fathom)" },
	{ "output", 'o', FM_OPT_TEXT, &o.out, "FILE", "write there instead of to standard output" },
	{ "function", 0, FM_OPT_TEXT, &o.function, "NAME",
	  "of a trace: one function's calls, how long they took, callers and callees" },
	{ "detailed", 0, FM_OPT_FLAG, &o.view.detailed, NULL,
	  "libraries and files below 1%, too; without it the time of libraries goes to the line of your code "
	  "that "
	  "called them" },
	{ "native-all", 0, FM_OPT_FLAG, &o.view.native_all, NULL,
	  "show the interpreter's own native frames, which are folded away otherwise" },
	{ "no-inlines", 0, FM_OPT_FLAG, &o.view.no_inlines, NULL,
	  "leave inlined calls inside the function that the compiler put them into" },
	{ "full-filenames", 0, FM_OPT_FLAG, &o.view.full_filenames, NULL, "whole paths in the tables of functions" },
	FM_TEXT_OPTIONS(&o.flags, "rows in the tables of functions (default 10)"),
	{ 0 },
};
static const struct fm_usage usage = {
	.command = "report",
	.operands = "PROFILE",
	.about = "Print where the time and memory of a capture went: by function, module, kind and line, with "
		 "95% "
		 "intervals.",
	.options = options,
	.examples = "  fathom report profile.fathom\n"
		    "  fathom report --tree profile.fathom\n"
		    "  fathom report --explain\n"
		    "  fathom report --history script.py\n"
		    "  fathom report --top 30 --detailed profile.fathom\n"
		    "  fathom report --function parse trace.fathom\n"
		    "  fathom report --json profile.fathom | jq '.functions[0]'\n",
	.max_operands = 1,
};

int fm_cmd_report(int argc, char **argv)
{
	o.view = FM_VIEW_OPTIONS_DEFAULT;
	struct fm_operands ops;
	int exit_code;
	if (!fm_options_parse(&usage, argc, argv, &ops, &exit_code))
		return exit_code;
	fm_text_flags_apply(&o.flags, &o.view);
	if (o.is_json + o.is_summary + o.is_full + o.is_tree > 1) {
		fm_say("give one of --json, --summary, --full and --tree");
		return FM_EXIT_USAGE;
	}
	o.view.form = o.is_tree ? FM_TEXT_TREE : o.is_summary ? FM_TEXT_SCREEN : FM_TEXT_WHOLE;
	struct fm_diag diag;
	char usual_dir[4096];
	if (!o.output_dir)
		o.output_dir = fm_output_dir_usual(usual_dir, sizeof(usual_dir));
	if (o.history) {
		if (!fm_history_print(o.output_dir, o.history, &diag))
			return FM_EXIT_OK;
		fm_say("%s", diag.text);
		return FM_EXIT_FAILED;
	}
	if (!ops.n && !o.is_explain) {
		fm_say("name the profile to report; 'fathom report --help' has examples");
		return FM_EXIT_USAGE;
	}
	if (!ops.n) {
		fm_explain_write(stdout, &o.view);
		return FM_EXIT_OK;
	}
	if (o.function) {
		if (!fm_render_function(ops.v[0], o.function, stdout, &o.view, &diag))
			return FM_EXIT_OK;
		fm_say("%s", diag.text);
		return FM_EXIT_FAILED;
	}
	struct fm_captures captures;
	_cleanup_free_ char *profile = NULL;
	enum fm_err err = fm_captures_find(&captures, ops.v[0], &diag);
	if (!err)
		err = fm_join_runs(&captures, &profile, &diag);
	if (!err)
		err = fm_render_write(o.is_json ? "json" : "text", profile, o.out, &o.view, &diag);
	if (!err && captures.paths.n > 1 && !o.is_json && !o.is_tree)
		err = add_runs(&captures, o.out, &o.view, &diag);
	if (err)
		fm_say("%s", diag.text);
	else if (o.is_explain && !o.is_json && !o.out) {
		putchar('\n');
		fm_explain_write(stdout, &o.view);
	}
	fm_captures_deinit(&captures);
	return err ? FM_EXIT_FAILED : FM_EXIT_OK;
}
