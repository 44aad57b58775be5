// SPDX-License-Identifier: Apache-2.0
// fathom export: a capture in the format of another viewer.
#include "base/cleanup.h"
#include "base/log.h"
#include "cli/captures/captures.h"
#include "cli/options/options.h"
#include "cli/commands/commands.h"
#include "render/render.h"

#include <string.h>

static int list_formats(void)
{
	for (const struct fm_format *f = fm_formats; f->name; f++)
		printf("%-13s %s\n", f->name, f->description);
	return FM_EXIT_OK;
}

static enum fm_metric metric_of(const char *word)
{
	static const char *const words[] = { "time", "alloc", "peak", "leak", "copy" }; // in the order of fm_metric
	for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcmp(words[i], word))
			return (enum fm_metric)i;
	return FM_METRIC_TIME;
}

static bool has_stacks(const char *format)
{
	return !strcmp(format, "collapsed") || !strcmp(format, "raw") || !strcmp(format, "speedscope") ||
	       !strcmp(format, "flamegraph");
}

// Whether the format has what these options are about; else a line says that it has not.
static bool goes_with(const char *format, const struct fm_view_options *view, const char *metric)
{
	if (view->metric != FM_METRIC_TIME && !has_stacks(format)) {
		fm_say("--metric %s is for collapsed, speedscope and flamegraph; %s has its own columns", metric,
		       format);
		return false;
	}
	if (view->thread && strcmp(format, "cpuprofile")) {
		fm_say("--thread is for cpuprofile; %s holds all threads", format);
		return false;
	}
	return true;
}

static int export_one(const char *named, const char *format, const char *out, struct fm_view_options *view)
{
	struct fm_diag diag;
	_cleanup_free_ char *profile = NULL;
	enum fm_err err = fm_captures_find_one(named, &profile, &diag);
	if (!err) {
		view->called = fm_capture_called(profile, named);
		err = fm_render_write(format, profile, out, view, &diag);
	}
	if (err)
		fm_say("%s", diag.text);
	return err ? FM_EXIT_FAILED : FM_EXIT_OK;
}

int fm_cmd_export(int argc, char **argv)
{
	struct fm_view_options view = FM_VIEW_OPTIONS_DEFAULT;
	bool is_list = false;
	const char *format = NULL, *out = NULL, *unit = "samples", *metric = "time";
	const struct fm_option options[] = {
		{ "format", 'f', FM_OPT_TEXT, &format, "FORMAT", "the format to write; --list lists the formats" },
		{ "output", 'o', FM_OPT_TEXT, &out, "FILE", "write there (default: standard output)" },
		{ "list", 0, FM_OPT_FLAG, &is_list, NULL, "list the formats" },
		{ "metric", 0, FM_OPT_CHOICE, &metric, "time|alloc|peak|leak|copy",
		  "weight of the stacks: CPU time; or bytes allocated, live at the peak, leaked, copied" },
		{ "unit", 0, FM_OPT_CHOICE, &unit, "samples|us", "unit of the counts in collapsed stacks" },
		{ "threads", 't', FM_OPT_FLAG, &view.threads, NULL, "put the thread first in every stack" },
		{ "thread", 0, FM_OPT_TEXT, &view.thread, "NAME|TID",
		  "the thread for a cpuprofile, which holds only one (default: the busiest)" },
		{ "processes", 0, FM_OPT_FLAG, &view.processes, NULL,
		  "put the process and its parents first in every stack" },
		{ "native-all", 0, FM_OPT_FLAG, &view.native_all, NULL,
		  "keep the interpreter's own native frames, which are otherwise folded away" },
		{ "python-only", 0, FM_OPT_FLAG, &view.python_only, NULL,
		  "leave out all native frames of stacks with Python frames" },
		{ "function", 'F', FM_OPT_FLAG, &view.by_function, NULL,
		  "write one frame per function instead of per line" },
		{ "nolineno", 0, FM_OPT_FLAG, &view.no_line_numbers, NULL, "leave line numbers out" },
		{ "no-inlines", 0, FM_OPT_FLAG, &view.no_inlines, NULL,
		  "attribute inlined calls to the function that contains them" },
		{ "full-filenames", 0, FM_OPT_FLAG, &view.full_filenames, NULL,
		  "show full paths instead of file names" },
		{ "gil", 'g', FM_OPT_FLAG, &view.gil_only, NULL,
		  "only samples in the interpreter itself, which holds the GIL then; native code that holds it cannot "
		  "be distinguished" },
		{ "idle", 'i', FM_OPT_FLAG, &view.idle, NULL, "include waiting samples, if the capture has them" },
		{ 0 },
	};
	const struct fm_usage usage = {
		.command = "export",
		.operands = "PROFILE",
		.about = "Write a capture in the format of another viewer.",
		.options = options,
		.examples = "  fathom export --list\n"
			    "  fathom export -f speedscope -o profile.speedscope.json profile.fathom\n"
			    "  fathom export -f flamegraph --threads -o flame.svg profile.fathom\n"
			    "  fathom export -f flamegraph --metric peak -o memory.svg profile.fathom\n"
			    "  fathom export -f callgraph-svg -o calls.svg profile.fathom\n"
			    "  fathom export -f pprof -o profile.pb.gz profile.fathom         # go tool pprof\n"
			    "  fathom export -f gecko -o profile.json profile.fathom          # profiler.firefox.com\n"
			    "  fathom export -f cpuprofile --thread MainThread -o main.cpuprofile profile.fathom\n"
			    "  fathom export -f perfetto -o profile.pftrace profile.fathom    # ui.perfetto.dev\n"
			    "  fathom export -f collapsed --unit us profile.fathom | sort -k2 -n\n",
		.min_operands = 0,
		.max_operands = 1,
	};
	struct fm_operands ops;
	int exit_code;
	if (!fm_options_parse(&usage, argc, argv, &ops, &exit_code))
		return exit_code;
	if (is_list)
		return list_formats();
	if (!format || !fm_format_find(format)) {
		if (format)
			fm_say("no format named '%s'; 'fathom export --list' names them", format);
		else
			fm_say("name a format with -f; 'fathom export --list' names them");
		return FM_EXIT_USAGE;
	}
	if (ops.n != 1) {
		fm_say("name the profile to export; 'fathom export --help' has examples");
		return FM_EXIT_USAGE;
	}
	view.metric = metric_of(metric);
	if (!goes_with(format, &view, metric))
		return FM_EXIT_USAGE;
	view.unit_us = !strcmp(unit, "us");
	return export_one(ops.v[0], format, out, &view);
}
