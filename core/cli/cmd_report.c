// fathom report: what a capture says, for people or (--json) for machines.
#include "base/log.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "render/calls.h"
#include "render/render.h"

int fm_cmd_report(int argc, char **argv)
{
	struct fm_view_options view = FM_VIEW_OPTIONS_DEFAULT;
	bool is_json = false;
	const char *out = NULL, *color = "auto", *function = NULL;
	uint64_t n_top = 0, width = 0;
	const struct fm_option options[] = {
		{ "json", 0, FM_OPT_FLAG, &is_json, NULL,
		  "the same as JSON, schema fathom.report/1, with every function and line" },
		{ "output", 'o', FM_OPT_TEXT, &out, "FILE", "write there instead of to standard output" },
		{ "function", 0, FM_OPT_TEXT, &function, "NAME",
		  "of a trace: one function's calls, how long they took, callers and callees" },
		{ "top", 0, FM_OPT_UINT, &n_top, "N", "rows in the tables of functions (default 10)" },
		{ "detailed", 0, FM_OPT_FLAG, &view.detailed, NULL,
		  "lines of libraries, too; without it their time goes to the line of your code that called them" },
		{ "native-all", 0, FM_OPT_FLAG, &view.native_all, NULL,
		  "show the interpreter's own native frames, which are folded away otherwise" },
		{ "no-inlines", 0, FM_OPT_FLAG, &view.no_inlines, NULL,
		  "leave inlined calls inside the function that the compiler put them into" },
		{ "full-filenames", 0, FM_OPT_FLAG, &view.full_filenames, NULL,
		  "whole paths in the tables of functions" },
		{ "width", 0, FM_OPT_UINT, &width, "COLUMNS", "of the text (default: the terminal's, else 100)" },
		{ "color", 0, FM_OPT_CHOICE, &color, "auto|never|always",
		  "auto colours a terminal unless NO_COLOR is set" },
		{ 0 },
	};
	const struct fm_usage usage = {
		.command = "report",
		.operands = "PROFILE",
		.about = "Print where the time of a capture went: by class, function, line, thread and process, with "
			 "95% intervals.",
		.options = options,
		.examples = "  fathom report profile.fathom\n"
			    "  fathom report --top 30 --detailed profile.fathom\n"
			    "  fathom report --function parse trace.fathom\n"
			    "  fathom report --json profile.fathom | jq '.functions[0]'\n",
		.min_operands = 1,
		.max_operands = 1,
		.missing_operand = "name the profile to report",
	};
	struct fm_operands ops;
	int exit_code;
	if (!fm_options_parse(&usage, argc, argv, &ops, &exit_code))
		return exit_code;
	view.n_top = (unsigned)FM_MIN(n_top, (uint64_t)1000000);
	view.width = (unsigned)FM_MIN(width, (uint64_t)1000);
	view.color = color[1] == 'u' ? -1 : color[0] == 'a'; // auto, always, never
	struct fm_diag diag;
	if (function) {
		if (!fm_calls_write_function(stdout, ops.v[0], function, &view, &diag))
			return FM_EXIT_OK;
		fm_say("%s", diag.text);
		return FM_EXIT_FAILED;
	}
	if (fm_render_write(is_json ? "json" : "text", ops.v[0], out, &view, &diag)) {
		fm_say("%s", diag.text);
		return FM_EXIT_FAILED;
	}
	return FM_EXIT_OK;
}
