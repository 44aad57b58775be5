// fathom run: profile a target, keep the results in a dated folder, print the report.
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/capture_options.h"
#include "cli/cells.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/defaults.h"
#include "cli/listen.h"
#include "cli/logs.h"
#include "cli/name_frames.h"
#include "cli/options.h"
#include "cli/repeat.h"
#include "cli/results.h"
#include "cli/results_folder.h"
#include "cli/startup.h"
#include "cli/target.h"
#include "cli/traced.h"
#include "format/redact.h"
#include "render/label.h"

#define MAX_RUNS 1000

// "fathom run python3 -S script.py": an interpreter named as a program.
static bool is_python(const char *program)
{
	const char *base = strrchr(program, '/');
	return !strncmp(base ? base + 1 : program, "python", 6);
}

// "../x": a name may have folders, but none above the output dir.
static bool is_above(const char *name)
{
	for (const char *p = name; *p; p += strcspn(p, "/"), p += strspn(p, "/"))
		if (strcspn(p, "/") == 2 && !strncmp(p, "..", 2))
			return true;
	return false;
}

// The command as it was typed, but for the token: results are kept, and shown to others.
static void write_command(struct fm_buf *b, char **words, int n, const char *token, const struct fm_redact *redact)
{
	fm_buf_str(b, "fathom");
	if (redact) {
		struct fm_buf joined = { 0 }, masked = { 0 };
		for (int i = 0; i < n; i++)
			fm_buf_bytes(&joined, words[i], strlen(words[i]) + (i + 1 < n));
		fm_redact_command(redact, (struct fm_str){ (const char *)joined.data, (uint32_t)joined.len }, &masked);
		fm_buf_u8(b, ' ');
		fm_label_command(b, (struct fm_str){ (const char *)masked.data, (uint32_t)masked.len });
		fm_buf_deinit(&joined);
		fm_buf_deinit(&masked);
		return;
	}
	for (int i = 0; i < n; i++) {
		size_t len = strlen(words[i]);
		bool has_token = token && token >= words[i] && token <= words[i] + len;
		fm_buf_u8(b, ' ');
		if (!has_token)
			fm_label_word(b, (struct fm_str){ words[i], (uint32_t)len });
		else
			fm_buf_printf(b, "%.*s***", (int)(token - words[i]), words[i]); // "--token=" or nothing
	}
}

// What the target's Pythons left in the results folder, told to the profile.
struct leftovers {
	const char *dir;
	bool is_notebook, did_run; // did_run: it was one, and could be read
	bool is_traced;
	const char *no_logs; // why there may be none; NULL = not a Python program
};

static void tell_leftovers(struct fm_writer *w, void *arg)
{
	struct leftovers *left = arg;
	fm_name_frames(w, NULL);
	if (left->is_notebook)
		left->did_run = fm_cells_tell(w, left->dir);
	if (left->no_logs)
		fm_logs_tell(w, left->dir, left->no_logs);
	if (left->is_traced)
		fm_traced_tell(w, left->dir,
			       left->no_logs ? left->no_logs : "no Python ran in it that could be told to");
}

int fm_cmd_run(int argc, char **argv)
{
	struct fm_capture_flags flags = FM_CAPTURE_FLAGS_DEFAULT;
	struct fm_view_options view = FM_VIEW_OPTIONS_DEFAULT;
	const char *module = NULL, *python = NULL, *output_dir = FM_OUTPUT_DIR, *log_level = "WARNING";
	const char *name = NULL, *tell = NULL;
	bool is_quiet = false, no_plots = false, is_open = false, is_traced = false;
	uint64_t n_runs = 1;
	flags.is_memory_wanted = true;
	const struct fm_option options[] = {
		{ NULL, 'm', FM_OPT_TEXT, &module, "MODULE", "run a module, as python -m does" },
		{ "python", 0, FM_OPT_TEXT, &python, "PATH",
		  "the interpreter for scripts and modules, or a virtual environment's folder (default: the active "
		  "environment's, or python3 on PATH)" },
		{ "cpu", 0, FM_OPT_FLAG, &flags.is_cpu, NULL, "time only (default: time and memory)" },
		FM_MEMORY_OPTIONS(&flags, "time and memory: sampled (the default), or =exact, every allocation"),
		{ "rate", 'r', FM_OPT_UINT, &flags.rate_hz, "HZ",
		  "samples per second of CPU time (default 1000; 10k is fine)" },
		FM_CAPTURE_OPTIONS(&flags),
		{ "duration", 0, FM_OPT_REAL, &flags.duration_s, "S", "ask the program to stop after so many seconds" },
		{ "trace", 0, FM_OPT_FLAG, &is_traced, NULL,
		  "every Python call with its times as well, as python -m fathom records them; costs time by the "
		  "call" },
		{ "no-inlines", 0, FM_OPT_FLAG, &view.no_inlines, NULL,
		  "leave inlined calls inside the function around them" },
		{ "detailed", 0, FM_OPT_FLAG, &view.detailed, NULL, "report the lines of libraries too" },
		{ "log-level", 0, FM_OPT_CHOICE, &log_level, "DEBUG|INFO|WARNING|ERROR|CRITICAL",
		  "least level of log records and warnings kept in logs.log (default WARNING)" },
		{ "no-plots", 0, FM_OPT_FLAG, &no_plots, NULL, "plots open no windows and wait for nobody" },
		{ "repeat", 0, FM_OPT_UINT, &n_runs, "N",
		  "run it N times and print mean, spread and 95% interval of functions and lines" },
		{ "name", 0, FM_OPT_TEXT, &name, "NAME", "of the folder below the output dir (default: the target's)" },
		{ "tell-results", 0, FM_OPT_TEXT, &tell, "FILE", NULL }, // for fathom.run_job
		{ "output-dir", 0, FM_OPT_TEXT, &output_dir, "DIR", "where results go (default: .fathom)" },
		FM_REDACT_OPTIONS(&flags),
		FM_LISTEN_OPTIONS(&flags),
		{ "open", 0, FM_OPT_FLAG, &is_open, NULL, "open report.html of the results in the browser at the end" },
		{ "quiet", 'q', FM_OPT_FLAG, &is_quiet, NULL, "print no report" },
		{ 0 },
	};
	const struct fm_usage usage = {
		.command = "run",
		.operands = "TARGET [ARGUMENTS...]",
		.about = "Profile a script, a notebook, a module (-m) or any program, print where the time went and "
			 "keep the "
			 "results.",
		.options = options,
		.examples = "  fathom run script.py --its-own-option\n"
			    "  fathom run job.py                # anywhere in the project, if there is only one\n"
			    "  fathom run -m pytest tests\n"
			    "  fathom run --no-plots --log-level INFO analysis.ipynb\n"
			    "  fathom run --rate 10k --python python3.12 script.py\n"
			    "  fathom run --repeat 5 script.py\n"
			    "  fathom run --cpu script.py\n"
			    "  fathom run --precision 3 script.py\n"
			    "  fathom run --trace script.py\n"
			    "  fathom run --listen 8086 server.py    # then, elsewhere: fathom live\n"
			    "  fathom run ./simulation input.dat\n",
		.stop_at_first_operand = true,
		.last_option = 'm',
		.max_operands = UINT_MAX,
	};
	_cleanup_free_ char **typed = fm_alloc((size_t)argc * sizeof(*typed)); // parsing moves the words
	memcpy(typed, argv, (size_t)argc * sizeof(*typed));
	struct fm_operands ops;
	int exit_code;
	struct fm_diag diag;
	if (fm_defaults_apply(options, true, &diag)) {
		fm_say("%s", diag.text);
		return FM_EXIT_USAGE;
	}
	if (!fm_options_parse(&usage, argc, argv, &ops, &exit_code))
		return exit_code;
	if (!module && ops.n == 0) {
		fm_say("name a script, a module (-m) or a program to run; 'fathom run --help' has examples");
		return FM_EXIT_USAGE;
	}
	if (n_runs < 1 || n_runs > MAX_RUNS) {
		fm_say("--repeat must be from 1 to %d", MAX_RUNS);
		return FM_EXIT_USAGE;
	}
	if (name && is_above(name)) {
		fm_say("--name wants a folder below the output dir, not '%s'", name);
		return FM_EXIT_USAGE;
	}
	if (flags.listen && n_runs > 1) {
		fm_say("--listen is for watching one run; leave --repeat out");
		return FM_EXIT_USAGE;
	}
	struct fm_capture_options capture = { 0 };
	struct fm_listener listener;
	struct fm_target target;
	struct fm_startup startup = { 0 };
	if (fm_capture_flags_apply(&flags, &capture, &diag) || fm_listener_check(&flags, &diag)) {
		fm_say("%s", diag.text);
		return FM_EXIT_USAGE;
	}
	_cleanup_(fm_buf_deinit) struct fm_buf command = { 0 };
	write_command(&command, typed, argc, flags.token, capture.redact);
	char dir[4096], profile[4200], cells[4200];
	exit_code = FM_EXIT_FAILED;
	if (fm_target_find(&target, module, python, output_dir, ops.v, ops.n, &diag) ||
	    fm_results_folder_make(output_dir, name ? name : target.stem, dir, sizeof(dir), &diag)) {
		fm_say("%s", diag.text);
		goto out;
	}
	if (tell && fm_results_folder_tell(dir, tell, &diag)) {
		fm_say("%s", diag.text);
		goto out;
	}
	snprintf(profile, sizeof(profile), n_runs > 1 ? "%s/profile_1.fathom" : "%s/profile.fathom", dir);
	if (target.script && !capture.redact) // a copy would show what is masked
		fm_results_folder_copy(dir, target.script);
	capture.argv = target.argv.items;
	capture.output_path = profile;
	fm_listener_open(&listener, &flags, &capture);
	struct fm_startup_options wishes = {
		.results_dir = dir,
		.log_level = log_level,
		.no_plots = no_plots || target.is_notebook, // in a notebook a plot is a picture, not a window
		.children = capture.children,
		.is_notebook = target.is_notebook,
		.trace = is_traced,
	};
	struct leftovers left = { .dir = dir, .is_notebook = target.is_notebook, .is_traced = is_traced };
	struct fm_diag no_startup;
	if (fm_startup_init(&startup, &wishes, &no_startup))
		left.no_logs = no_startup.text;
	else if (target.python || is_python(target.argv.items[0]))
		left.no_logs = "Python ended before it came to its start-up files, or could not write here";
	snprintf(cells, sizeof(cells), "%s/cells", dir);
	capture.sources_dir = target.is_notebook ? cells : NULL;
	capture.env = startup.env;
	capture.has_calls = is_traced;
	capture.at_end = tell_leftovers;
	capture.at_end_arg = &left;
	if (fm_repeat_run(&capture, (unsigned)n_runs, dir, &exit_code, &diag)) {
		fm_say("%s", diag.text);
		goto out;
	}
	// Of several runs each tells for itself, in a process of its own.
	if (left.is_notebook && n_runs == 1 && !left.did_run)
		goto out; // the runner has said why; there is nothing to report
	fm_results_tell(dir, (const char *)command.data, &view, is_quiet, is_open);
out:
	fm_startup_deinit(&startup);
	fm_target_deinit(&target);
	return exit_code;
}
