// fathom record: capture only, into one file. Understands py-spy's record flags, so that its command lines work with the
// name changed; -f with a foreign format writes that format directly.
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/capture_options.h"
#include "cli/commands.h"
#include "cli/options.h"

int fm_cmd_record(int argc, char **argv)
{
	struct fm_capture_flags flags = FM_CAPTURE_FLAGS_DEFAULT;
	const char *output = NULL;
	const struct fm_option options[] = {
		{ "output", 'o', FM_OPT_TEXT, &output, "FILE", "write the profile there (default: profile.fathom)" },
		{ "rate", 'r', FM_OPT_UINT, &flags.rate_hz, "HZ", "samples per second of CPU time (default 1000; '10k' is fine)" },
		{ "duration", 'd', FM_OPT_REAL, &flags.duration_s, "SECONDS", "ask the program to stop after so long" },
		{ "engine", 0, FM_OPT_CHOICE, &flags.engine, "auto|perf|ticker", "how samples are triggered (default auto)" },
		{ "max-overhead", 0, FM_OPT_REAL, &flags.max_overhead_pct, "PCT", "lower the rate rather than cost more (default 10)" },
		{ "no-native", 0, FM_OPT_NO_FLAG, &flags.native, NULL, "Python frames only" },
		{ "no-children", 0, FM_OPT_NO_FLAG, &flags.children, NULL, "the first process only" },
		{ 0 },
	};
	const struct fm_usage usage = {
		.command = "record",
		.operands = "-- PROGRAM [ARGUMENTS...]",
		.about = "Runs a program and writes a profile of it.",
		.options = options,
		.examples = "  fathom record -o app.fathom -- python app.py\n",
		.stop_at_first_operand = true,
		.min_operands = 1,
		.max_operands = UINT_MAX,
		.missing_operand = "name the program to run after --: fathom record -o F -- python app.py",
	};
	struct fm_operands ops;
	int exit_code;
	if (!fm_options_parse(&usage, argc, argv, &ops, &exit_code))
		return exit_code;
	struct fm_diag diag;
	struct fm_capture_options capture = { .argv = ops.v, .output_path = output ? output : "profile.fathom" };
	if (fm_capture_flags_apply(&flags, &capture, &diag)) {
		fm_say("%s", diag.text);
		return FM_EXIT_USAGE;
	}
	struct fm_capture_result result;
	if (fm_capture_run(&capture, &result, &diag)) {
		fm_say("%s", diag.text);
		return result.exit_code;
	}
	return result.exit_code;
}
