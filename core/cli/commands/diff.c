// SPDX-License-Identifier: Apache-2.0
// fathom diff: what changed between two captures, or two sets of repeated ones.
#include "base/log.h"
#include "cli/options/options.h"
#include "cli/commands/commands.h"
#include "cli/options/groups.h"
#include "cli/project/project.h"
#include "render/shared/compare.h"

int fm_cmd_diff(int argc, char **argv)
{
	struct fm_view_options view = FM_VIEW_OPTIONS_DEFAULT;
	bool is_json = false, is_markdown = false;
	char usual_dir[4096];
	const char *output_dir = fm_output_dir_usual(usual_dir, sizeof(usual_dir));
	struct fm_text_flags flags = FM_TEXT_FLAGS_DEFAULT;
	const struct fm_option options[] = {
		{ "json", 0, FM_OPT_FLAG, &is_json, NULL,
		  "JSON, schema fathom.diff/1: all functions and lines that were compared" },
		{ "markdown", 0, FM_OPT_FLAG, &is_markdown, NULL, "what changed most, in at most 8 KB of Markdown" },
		{ "detailed", 0, FM_OPT_FLAG, &view.detailed, NULL, "include libraries and native functions" },
		{ "output-dir", 0, FM_OPT_TEXT, &output_dir, "DIR",
		  "the folder to search for NAME (default: the project's .fathom)" },
		FM_TEXT_OPTIONS(&flags, "rows in each table (default 10)"),
		{ 0 },
	};
	const struct fm_usage usage = {
		.command = "diff",
		.operands = "BASE NEW | NAME",
		.about = "Print what got slower, faster or bigger from BASE to NEW, with 95% intervals. Each is a "
			 "capture or a "
			 "results folder, which may hold repeated runs; NAME is a script, and its two latest runs are "
			 "compared.",
		.options = options,
		.examples = "  fathom diff before.fathom after.fathom\n"
			    "  fathom diff .fathom/app/20260102_030405 .fathom/app/20260102_040506\n"
			    "  fathom diff app.py\n",
		.min_operands = 1,
		.max_operands = 2,
		.missing_operand = "name the two captures to compare",
	};
	struct fm_sides s;
	int exit_code;
	if (!fm_sides_load(&s, &usage, argc, argv, &view, &output_dir, &exit_code))
		return exit_code;
	if (is_json && is_markdown) {
		fm_say("give one of --json and --markdown");
		fm_sides_deinit(&s);
		return FM_EXIT_USAGE;
	}
	const char *cut = fm_sides_cut(&s);
	if (cut)
		fm_say("%s was cut off before its end, or still runs: diff shows what it lacks as a change", cut);
	fm_text_flags_apply(&flags, &view);
	if (is_json)
		fm_compare_diff_json(stdout, &s.diff, &s.base, &s.new);
	else if (is_markdown)
		fm_compare_diff_markdown(stdout, &s.diff, &s.base, &s.new);
	else
		fm_compare_diff_text(stdout, &s.diff, &s.base, &s.new, &view);
	fm_sides_deinit(&s);
	return FM_EXIT_OK;
}
