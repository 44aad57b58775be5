// SPDX-License-Identifier: Apache-2.0
// fathom collect-for PID: the collector of a program that runs already and joins by itself (python
// -m fathom, fathom.Profiler). Not for people, so it is not in the table of commands that help
// prints.
//
// It leaves the program's family of processes at once: a program that waits for its children must
// not meet one it never started. It says on standard output "ring PATH" when it can be joined, or
// "error TEXT", and closes it. It ends with the process, or when the process says so in the memory
// they share; when it is gone, the file is whole.
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/utf8.h"
#include "cli/options/groups.h"
#include "cli/options/options.h"
#include "cli/commands/commands.h"
#include "cli/live/live.h"
#include "cli/run/results.h"
#include "render/text/text.h"
#include "render/render.h"

static void say_ring(const char *ring_path, struct capture *running, void *unused)
{
	(void)running;
	(void)unused;
	printf("ring %s\n", ring_path);
	fflush(stdout);
	// The end of the answer for who reads it. The number stays taken, so that nothing else gets
	// it.
	int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (nowhere >= 0) {
		dup2(nowhere, STDOUT_FILENO);
		close(nowhere);
	}
}

static void tell_logs(struct fm_writer *w, void *results_dir)
{
	fm_logs_tell(w, results_dir, "the results folder could not be written to");
}

static int refuse(const struct fm_diag *diag)
{
	printf("error %s\n", diag->text);
	fflush(stdout);
	return FM_EXIT_FAILED;
}

static void tell_where(const char *output, const char *also_as)
{
	fputs("\nIn ", stderr);
	fm_utf8_print(stderr, fm_str_of(output));
	fputs(also_as ? " and " : "", stderr);
	fm_utf8_print(stderr, fm_str_of(also_as ? also_as : ""));
	fputs("; 'fathom view ", stderr);
	fm_utf8_print(stderr, fm_str_of(output));
	fputs("' shows it over time.\n", stderr);
}

static enum fm_err print_table(const char *path, const struct fm_view_options *view, struct fm_diag *diag)
{
	struct fm_analysis *a;
	enum fm_err err = fm_render_open(path, view, FM_ANALYSIS_CALLS, &a, diag);
	if (err)
		return err;
	fm_calls_print(stderr, a->calls, view);
	fm_analysis_close(a);
	return FM_OK;
}

static int collect(struct fm_capture_options *capture, const char *format, const char *also_as, bool has_table)
{
	struct fm_diag diag;
	int exit_code;
	if (fm_capture_run(capture, &exit_code, &diag))
		return refuse(&diag);
	struct fm_view_options view = FM_VIEW_OPTIONS_DEFAULT;
	exit_code = FM_EXIT_OK; // how the program ends is its parent's to tell
	if (also_as && fm_render_write(format, capture->output_path, also_as, &view, &diag)) {
		fm_say("%s", diag.text);
		exit_code = FM_EXIT_FAILED;
	}
	if (has_table && print_table(capture->output_path, &view, &diag)) {
		fm_say("%s", diag.text);
		exit_code = FM_EXIT_FAILED;
	}
	if (has_table && exit_code == FM_EXIT_OK)
		tell_where(capture->output_path, also_as);
	return exit_code;
}

int fm_cmd_collect_for(int argc, char **argv)
{
	struct fm_capture_flags flags = FM_CAPTURE_FLAGS_DEFAULT;
	const char *output = "trace.fathom", *format = "pstats", *also_as = NULL, *results_dir = NULL;
	bool has_table = false, children_join = false;
	double last_s = 0, min_us = 0;
	flags.engine = "ticker"; // the only one that can be started late
	flags.token = getenv("FATHOM_TOKEN");
	flags.redact_also = getenv("FATHOM_REDACT_ALSO");
	const char *redact = getenv("FATHOM_REDACT");
	flags.is_redacted = redact && *redact && strcmp(redact, "0") != 0;
	const struct fm_option options[] = {
		{ "output", 'o', FM_OPT_TEXT, &output, "FILE", "the profile" },
		{ "format", 'f', FM_OPT_TEXT, &format, "FORMAT", "of --also-as" },
		{ "also-as", 0, FM_OPT_TEXT, &also_as, "FILE", "also write it in that format" },
		{ "table", 0, FM_OPT_FLAG, &has_table, NULL, "print the calls on standard error at the end" },
		{ "last", 0, FM_OPT_REAL, &last_s, "SECONDS", "keep only the end of the trace" },
		{ "min-duration-us", 0, FM_OPT_REAL, &min_us, "US", "leave shorter calls out" },
		{ "rate", 'r', FM_OPT_UINT, &flags.rate_hz, "HZ", "samples per second of CPU time" },
		{ "cpu", 0, FM_OPT_FLAG, &flags.is_cpu, NULL, "time only" },
		{ "memory", 0, FM_OPT_OPTIONAL_TEXT, &flags.memory, "HOW", "time and memory" },
		{ "precision", 0, FM_OPT_INT, &flags.precision, "N", "precision of memory" },
		{ "no-native", 0, FM_OPT_NO_FLAG, &flags.native, NULL, "Python frames only" },
		{ "no-children", 0, FM_OPT_NO_FLAG, &flags.children, NULL, "no forked children" },
		{ "children-join", 0, FM_OPT_FLAG, &children_join, NULL, "Pythons that it starts also join" },
		FM_REDACT_OPTIONS(&flags),
		{ "listen", 0, FM_OPT_TEXT, &flags.listen, "[HOST:]PORT", "let others watch" },
		{ "token", 0, FM_OPT_TEXT, &flags.token, "TOKEN", "the secret that other machines need" },
		{ "results", 0, FM_OPT_TEXT, &results_dir, "DIR",
		  "holds logs.log, and in cells/ the sources that are not files" },
		{ 0 },
	};
	const struct fm_usage usage = {
		.command = "collect-for",
		.operands = "PID [COMMAND...]",
		.about = "Collect the data of a running program that joins by itself.",
		.options = options,
		.stop_at_first_operand = true,
		.min_operands = 1,
		.max_operands = UINT_MAX,
		.missing_operand = "name the process",
	};
	struct fm_operands ops;
	int exit_code;
	if (!fm_options_parse(&usage, argc, argv, &ops, &exit_code))
		return exit_code;
	struct fm_diag diag;
	char sources_dir[4096];
	snprintf(sources_dir, sizeof(sources_dir), "%s/cells", results_dir ? results_dir : "");
	struct fm_capture_options capture = { .argv = ops.v + 1, .output_path = output };
	struct fm_listener listener;
	flags.is_memory_wanted = results_dir != NULL; // a job, which is what `fathom run` is for a block
	if (fm_capture_flags_apply(&flags, &capture, &diag) || fm_listener_check(&flags, &diag))
		return refuse(&diag);
	capture.at_end = NULL; // names are looked up when they are asked for: the program waits for us
	if (results_dir) {
		capture.sources_dir = sources_dir;
		capture.at_end = tell_logs;
		capture.at_end_arg = (void *)results_dir;
	}
	capture.trace = (struct fm_trace_limits){ (uint64_t)(last_s * 1e9), (uint64_t)(min_us * 1e3) };
	capture.beside_pid = (uint32_t)strtoul(ops.v[0], NULL, 10);
	capture.children_join = children_join;
	capture.on_ready = say_ring;
	if (!capture.beside_pid) {
		fm_diag_set(&diag, FM_E_USAGE, "'%s' is not a process id", ops.v[0]);
		return refuse(&diag);
	}
	fm_listener_open(&listener, &flags, &capture);
	pid_t child = fork();
	if (child < 0) {
		fm_diag_set(&diag, FM_E_REFUSED, "cannot start a process: %m");
		return refuse(&diag);
	}
	if (child > 0)
		_exit(0);
	setsid();
	return collect(&capture, format, also_as, has_table);
}
