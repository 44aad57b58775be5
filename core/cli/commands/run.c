// SPDX-License-Identifier: Apache-2.0
// fathom run: profile a target, keep the results in a dated folder, print the report.
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/options/groups.h"
#include "cli/run/results.h"
#include "cli/options/options.h"
#include "cli/commands/commands.h"
#include "cli/live/live.h"
#include "cli/captures/name_frames.h"
#include "cli/project/project.h"
#include "cli/run/target.h"
#include "cli/run/watchdog.h"
#include "format/redact.h"
#include "render/shared/label.h"

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

// A script that names the option somewhere has one of its own by that name.
static bool mentions(const char *script, const char *word)
{
	static char text[1 << 20];
	_cleanup_fclose_ FILE *f = script ? fopen(script, "re") : NULL;
	size_t n = f ? fread(text, 1, sizeof(text), f) : 0;
	return memmem(text, n, word, strcspn(word, "=")) != NULL;
}

// Options of ours behind the target are the target's: who did not mean that should hear of it.
static void hint_at_misplaced(const struct fm_option *options, const struct fm_target *target, const char *what,
			      char **words, int n, int exit_code)
{
	const char *word = fm_options_misplaced(options, words, n);
	if (word && (target->script ? !mentions(target->script, word) : exit_code != 0))
		fm_say("%s comes after %s, so the program received it; Fathom's options come first: fathom run %s %s "
		       "...",
		       word, what, word, what);
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
		fm_traced_tell(w, left->dir, left->no_logs ? left->no_logs : "it ran no Python that can be traced");
}

// What the command line says. A program runs one command once.
static struct {
	struct fm_capture_flags flags;
	struct fm_view_options view;
	struct fm_watchdog watchdog;
	const char *module, *python, *output_dir, *log_level, *name, *tell, *copied;
	bool is_quiet, no_plots, is_open, is_traced, is_full, is_markdown;
	uint64_t n_runs;
} o = { .flags = FM_CAPTURE_FLAGS_DEFAULT, .log_level = "WARNING", .n_runs = 1 };

static const struct fm_option options[] = {
	{ NULL, 'm', FM_OPT_TEXT, &o.module, "MODULE", "run a module, as python -m does" },
	{ "python", 0, FM_OPT_TEXT, &o.python, "PATH",
	  "the interpreter for scripts and modules, or a virtual environment's folder (default: the active "
	  "environment's, or python3 on PATH)" },
	{ "cpu", 0, FM_OPT_FLAG, &o.flags.is_cpu, NULL, "time only (default: time and memory)" },
	FM_MEMORY_OPTIONS(&o.flags, "time and memory: sampled (the default), or =exact, every allocation"),
	{ "rate", 'r', FM_OPT_UINT, &o.flags.rate_hz, "HZ",
	  "samples per second of CPU time (default 1000; up to 2k is fine, more disturbs what it measures)" },
	FM_CAPTURE_OPTIONS(&o.flags),
	{ "duration", 0, FM_OPT_REAL, &o.flags.duration_s, "S", "ask the program to stop after S seconds" },
	{ "trace", 0, FM_OPT_FLAG, &o.is_traced, NULL,
	  "also record every Python call with its times, as python -m fathom does; each call costs time" },
	{ "dump-after", 0, FM_OPT_REAL, &o.watchdog.after_s, "S",
	  "print the stacks of all threads, with local variables, after S seconds" },
	{ "dump-on-hang", 0, FM_OPT_REAL, &o.watchdog.hang_s, "S",
	  "the same after S seconds without CPU time, input and output" },
	{ "end-after-dump", 0, FM_OPT_FLAG, &o.watchdog.ends, NULL, "then ask the program to stop" },
	{ "no-inlines", 0, FM_OPT_FLAG, &o.view.no_inlines, NULL,
	  "attribute inlined calls to the function that contains them" },
	{ "detailed", 0, FM_OPT_FLAG, &o.view.detailed, NULL, "report the lines of libraries too" },
	{ "log-level", 0, FM_OPT_CHOICE, &o.log_level, "DEBUG|INFO|WARNING|ERROR|CRITICAL",
	  "lowest level of log records and warnings kept in logs.log (default WARNING)" },
	{ "no-plots", 0, FM_OPT_FLAG, &o.no_plots, NULL, "plots open no windows and do not wait" },
	{ "repeat", 0, FM_OPT_UINT, &o.n_runs, "N",
	  "run it N times and print mean, spread and 95% interval of functions and lines" },
	{ "name", 0, FM_OPT_TEXT, &o.name, "NAME", "name of the results folder (default: the target's)" },
	// For fathom.run_job: where to say where the results are, and the code that is the user's own.
	{ "tell-results", 0, FM_OPT_TEXT, &o.tell, "FILE", NULL },
	{ "copy-of", 0, FM_OPT_TEXT, &o.copied, "FILE", NULL },
	{ "output-dir", 0, FM_OPT_TEXT, &o.output_dir, "DIR", "where results go (default: the project's .fathom)" },
	FM_REDACT_OPTIONS(&o.flags),
	FM_LISTEN_OPTIONS(&o.flags),
	{ "open", 0, FM_OPT_FLAG, &o.is_open, NULL, "open report.html of the results in the browser at the end" },
	{ "full", 0, FM_OPT_FLAG, &o.is_full, NULL,
	  "print the whole report, as it is in profile_results.txt, instead of a screen of it" },
	{ "markdown", 0, FM_OPT_FLAG, &o.is_markdown, NULL,
	  "print the report as 'fathom report --markdown' does, in at most 8 KB" },
	{ "quiet", 'q', FM_OPT_FLAG, &o.is_quiet, NULL, "print no report" },
	{ 0 },
};
static const struct fm_usage usage = {
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
		    "  fathom run --rate 2k --python python3.12 script.py\n"
		    "  fathom run --repeat 5 script.py\n"
		    "  fathom run --cpu script.py\n"
		    "  fathom run --precision 3 script.py\n"
		    "  fathom run --dump-on-hang 60 job.py\n"
		    "  fathom run --trace script.py\n"
		    "  fathom run --listen 8086 server.py    # then, elsewhere: fathom live\n"
		    "  fathom run ./simulation input.dat\n",
	.stop_at_first_operand = true,
	.last_option = 'm',
	.max_operands = UINT_MAX,
};

static bool is_sensible(const struct fm_operands *ops)
{
	if (!o.module && ops->n == 0) {
		fm_say("name a script, a module (-m) or a program to run; 'fathom run --help' has examples");
		return false;
	}
	if (o.n_runs < 1 || o.n_runs > MAX_RUNS) {
		fm_say("--repeat must be from 1 to %d", MAX_RUNS);
		return false;
	}
	if (o.name && is_above(o.name)) {
		fm_say("--name wants a folder below the output dir, not '%s'", o.name);
		return false;
	}
	if (o.flags.listen && o.n_runs > 1) {
		fm_say("--listen shows one run; leave out --repeat");
		return false;
	}
	return true;
}

struct run {
	struct fm_target target;
	struct fm_startup startup;
	struct leftovers left;
	struct fm_diag no_startup; // why there is none
	char dir[4096], cells[4200];
};

// What happens around the program: start-up files of its Pythons, the watchdog, and what is read of
// the results folder at its end.
static void surround(struct run *r, struct fm_capture_options *capture)
{
	struct fm_startup_options startup = {
		.results_dir = r->dir,
		.log_level = o.log_level,
		.no_plots = o.no_plots || r->target.is_notebook, // in a notebook a plot is a picture, not a window
		.children = capture->children,
		.is_notebook = r->target.is_notebook,
		.trace = o.is_traced,
	};
	r->left = (struct leftovers){ .dir = r->dir, .is_notebook = r->target.is_notebook, .is_traced = o.is_traced };
	if (fm_startup_init(&r->startup, &startup, &r->no_startup))
		r->left.no_logs = r->no_startup.text;
	else if (r->target.python || is_python(r->target.argv.items[0]))
		r->left.no_logs = "Python ended before it ran its start-up files, or could not write here";
	snprintf(r->cells, sizeof(r->cells), "%s/cells", r->dir);
	capture->sources_dir = r->target.is_notebook ? r->cells : NULL;
	capture->env = r->startup.env;
	capture->has_calls = o.is_traced;
	o.watchdog.dir = r->dir;
	if (o.watchdog.after_s > 0 || o.watchdog.hang_s > 0) {
		capture->on_poll = fm_watchdog_poll;
		capture->on_poll_arg = &o.watchdog;
	}
	capture->at_end = tell_leftovers;
	capture->at_end_arg = &r->left;
}

int fm_cmd_run(int argc, char **argv)
{
	o.view = FM_VIEW_OPTIONS_DEFAULT;
	o.flags.is_memory_wanted = true;
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
	if (!is_sensible(&ops))
		return FM_EXIT_USAGE;
	struct fm_capture_options capture = { 0 };
	struct fm_listener listener;
	struct run r = { .dir = "" };
	if (fm_capture_flags_apply(&o.flags, &capture, &diag) || fm_listener_check(&o.flags, &diag)) {
		fm_say("%s", diag.text);
		return FM_EXIT_USAGE;
	}
	_cleanup_(fm_buf_deinit) struct fm_buf command = { 0 };
	write_command(&command, typed, argc, o.flags.token, capture.redact);
	char profile[4200], usual_dir[4096];
	bool is_usual = !o.output_dir;
	if (is_usual)
		o.output_dir = fm_output_dir_usual(usual_dir, sizeof(usual_dir));
	exit_code = FM_EXIT_FAILED;
	if (fm_target_find(&r.target, o.module, o.python, o.output_dir, ops.v, ops.n, &diag) ||
	    fm_results_folder_make(o.output_dir, is_usual, o.name ? o.name : r.target.stem, r.dir, sizeof(r.dir),
				   &diag)) {
		fm_say("%s", diag.text);
		goto out;
	}
	if (o.tell && fm_results_folder_tell(r.dir, o.tell, &diag)) {
		fm_say("%s", diag.text);
		goto out;
	}
	snprintf(profile, sizeof(profile), o.n_runs > 1 ? "%s/profile_1.fathom" : "%s/profile.fathom", r.dir);
	const char *copied = o.copied ? o.copied : r.target.script;
	if (copied && *copied && !capture.redact) // a copy would show what is masked
		fm_results_folder_copy(r.dir, copied);
	capture.argv = r.target.argv.items;
	capture.output_path = profile;
	fm_listener_open(&listener, &o.flags, &capture);
	surround(&r, &capture);
	if (fm_repeat_run(&capture, (unsigned)o.n_runs, r.dir, &exit_code, &diag)) {
		fm_say("%s", diag.text);
		goto out;
	}
	// Of several runs each tells for itself, in a process of its own.
	if (r.left.is_notebook && o.n_runs == 1 && !r.left.did_run)
		goto out; // the runner has said why; there is nothing to report
	if (!o.is_quiet)
		hint_at_misplaced(options, &r.target, o.module ? o.module : ops.v[0], ops.v + !o.module,
				  ops.n - !o.module, exit_code);
	o.view.form = o.is_full ? FM_TEXT_WHOLE : FM_TEXT_SCREEN;
	const char *printed = o.is_quiet ? NULL : o.is_markdown ? "markdown" : "text";
	fm_results_tell(r.dir, (const char *)command.data, &o.view, printed, o.is_open);
out:
	fm_startup_deinit(&r.startup);
	fm_target_deinit(&r.target);
	return exit_code;
}
