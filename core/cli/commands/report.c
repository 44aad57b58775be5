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
	bool is_json, is_markdown, is_explain, is_summary, is_full, is_tree;
	const char *out, *history, *focus, *output_dir;
} o = { .flags = FM_TEXT_FLAGS_DEFAULT };

static const struct fm_option options[] = {
	{ "json", 0, FM_OPT_FLAG, &o.is_json, NULL,
	  "print JSON, schema fathom.report/1, with every function and line" },
	{ "markdown", 0, FM_OPT_FLAG, &o.is_markdown, NULL,
	  "print at most 8 KB of Markdown: the verdict, the lines worth changing with their source, the next command" },
	{ "focus", 0, FM_OPT_TEXT, &o.focus, "FUNC|FILE:LINE",
	  "print one function or line: callers, callees, lines, memory, waiting, threads; for a trace also its calls" },
	{ "function", 0, FM_OPT_TEXT, &o.focus, "NAME", NULL }, // what --focus was called when it knew traces only
	{ "summary", 0, FM_OPT_FLAG, &o.is_summary, NULL, "print only the first screen, as 'fathom run' does" },
	{ "tree", 0, FM_OPT_FLAG, &o.is_tree, NULL,
	  "print the call tree of your code; each package that it calls is one line, and so are imports" },
	{ "full", 0, FM_OPT_FLAG, &o.is_full, NULL, "print everything, which is the default here" },
	{ "explain", 0, FM_OPT_FLAG, &o.is_explain, NULL, "explain what each number means; needs no profile" },
	{ "history", 0, FM_OPT_TEXT, &o.history, "NAME", "list the dated runs of a script with their totals" },
	{ "output-dir", 0, FM_OPT_TEXT, &o.output_dir, "DIR",
	  "the folder that --history searches (default: the project's .fathom)" },
	{ "output", 'o', FM_OPT_TEXT, &o.out, "FILE", "write there instead of to standard output" },
	{ "detailed", 0, FM_OPT_FLAG, &o.view.detailed, NULL,
	  "include libraries and files below 1%; otherwise the time of libraries counts for the line of your code that "
	  "called them" },
	{ "native-all", 0, FM_OPT_FLAG, &o.view.native_all, NULL,
	  "show the interpreter's own native frames, which are otherwise folded away" },
	{ "no-inlines", 0, FM_OPT_FLAG, &o.view.no_inlines, NULL,
	  "attribute inlined calls to the function that contains them" },
	{ "full-filenames", 0, FM_OPT_FLAG, &o.view.full_filenames, NULL,
	  "show full paths in the tables of functions" },
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
		    "  fathom report --markdown profile.fathom\n"
		    "  fathom report --focus Parser.parse profile.fathom\n"
		    "  fathom report --focus parser.py:120 --json profile.fathom\n"
		    "  fathom report --json profile.fathom | jq '.functions[0]'\n",
	.max_operands = 1,
};

static bool is_sensible(const struct fm_operands *ops)
{
	if (o.is_json + o.is_markdown + o.is_summary + o.is_full + o.is_tree > 1) {
		fm_say("give one of --json, --markdown, --summary, --full and --tree");
		return false;
	}
	if (o.focus && (o.is_summary || o.is_tree || o.is_full || o.is_explain)) {
		fm_say("--focus is a separate report; combine it only with --json or --markdown");
		return false;
	}
	if (!ops->n && !o.is_explain && !o.history) {
		fm_say("name the profile to report; 'fathom report --help' has examples");
		return false;
	}
	return true;
}

static enum fm_err focus(const char *profile, struct fm_diag *diag, struct fm_buf *ret_found)
{
	enum fm_focus_form form = o.is_json ? FM_FOCUS_JSON : o.is_markdown ? FM_FOCUS_MARKDOWN : FM_FOCUS_TEXT;
	return fm_render_focus(profile, o.focus, form, o.out, &o.view, ret_found, diag);
}

static enum fm_err report(const struct fm_captures *captures, const char *profile, struct fm_diag *diag)
{
	enum fm_err err = fm_render_write(o.is_json       ? "json"
					  : o.is_markdown ? "markdown"
							  : "text",
					  profile, o.out, &o.view, diag);
	if (!err && captures->paths.n > 1 && !o.is_json && !o.is_markdown && !o.is_tree)
		err = add_runs(captures, o.out, &o.view, diag);
	return err;
}

int fm_cmd_report(int argc, char **argv)
{
	o.view = FM_VIEW_OPTIONS_DEFAULT;
	struct fm_operands ops;
	int exit_code;
	if (!fm_options_parse(&usage, argc, argv, &ops, &exit_code))
		return exit_code;
	if (!is_sensible(&ops))
		return FM_EXIT_USAGE;
	fm_text_flags_apply(&o.flags, &o.view);
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
	if (!ops.n) {
		fm_explain_write(stdout, &o.view);
		return FM_EXIT_OK;
	}
	struct fm_captures captures;
	_cleanup_(fm_buf_deinit) struct fm_buf found = { 0 };
	_cleanup_free_ char *profile = NULL;
	enum fm_err err = fm_captures_find(&captures, ops.v[0], &diag);
	if (!err)
		err = fm_join_runs(&captures, &profile, &diag);
	if (!err)
		o.view.called = fm_capture_called(profile, ops.v[0]);
	if (!err)
		err = o.focus ? focus(profile, &diag, &found) : report(&captures, profile, &diag);
	if (err)
		fm_say("%s", diag.text);
	if (found.len)
		fwrite(found.data, 1, found.len, stderr);
	if (!err && o.is_explain && !o.is_json && !o.is_markdown && !o.out) {
		putchar('\n');
		fm_explain_write(stdout, &o.view);
	}
	fm_captures_deinit(&captures);
	return err == FM_E_USAGE && o.focus ? FM_EXIT_USAGE : err ? FM_EXIT_FAILED : FM_EXIT_OK;
}
