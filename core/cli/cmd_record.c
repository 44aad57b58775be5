// fathom record: capture only, into one file. Understands py-spy's record flags, so that its command lines work with the name
// changed; -f with a foreign format writes that format directly.
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/owner.h"
#include "cli/capture_options.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/defaults.h"
#include "cli/listen.h"
#include "cli/options.h"
#include "cli/output_name.h"
#include "cli/pid.h"
#include "cli/traced.h"
#include "collect/attach.h"
#include "format/output.h"
#include "render/render.h"

// Each look holds every thread that runs for a moment.
#define ATTACH_RATE_HZ 100

// A place for the capture while a foreign format is what is wanted.
static bool make_temporary(char *ret, size_t cap)
{
	const char *dir = getenv("TMPDIR");
	snprintf(ret, cap, "%s/fathom-XXXXXX", dir && *dir ? dir : "/tmp");
	int fd = mkostemp(ret, O_CLOEXEC);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

// Writing comes after the run, so an impossible place is better said before; and until then nobody else gets it. Open until the end.
static bool reserve(const char *path, struct fm_diag *diag)
{
	struct stat st;
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, FM_PRIVATE_FILE);
	if (fd < 0 || fstat(fd, &st)) {
		fm_diag_set(diag, FM_E_IO, "cannot write to %s: %m", path);
		return false;
	}
	return !S_ISREG(st.st_mode) || fm_output_lock(fd, path, diag);
}

// Seconds, with or without the unit; "unlimited" leaves *ret_s as it is.
static bool parse_duration(const char *text, double *ret_s)
{
	if (!strcmp(text, "unlimited"))
		return true;
	char *end;
	double seconds = strtod(text, &end);
	if (*end == 's')
		end++;
	if (*end || end == text || !(seconds > 0))
		return false;
	*ret_s = seconds;
	return true;
}

static enum fm_err observe(uint32_t pid, bool may_stop, double max_overhead_pct,
			   const struct fm_capture_options *capture, struct fm_diag *diag)
{
	struct fm_attach_options attach = {
		.pid = pid,
		.output_path = capture->output_path,
		.redact = capture->redact,
		.rate_hz = capture->rate_hz,
		.native = capture->native,
		.may_stop = may_stop,
		.duration_s = capture->duration_s,
		.cpu_percent = max_overhead_pct > 0 ? (uint32_t)FM_MAX(max_overhead_pct, 1.0) : 100,
		.at_end = capture->at_end,
		.on_open = capture->on_open,
		.on_open_arg = capture->on_open_arg,
	};
	return fm_attach_run(&attach, diag);
}

int fm_cmd_record(int argc, char **argv)
{
	struct fm_capture_flags flags = FM_CAPTURE_FLAGS_DEFAULT;
	struct fm_view_options view = FM_VIEW_OPTIONS_DEFAULT;
	const char *output = NULL, *format = "fathom", *pid = NULL, *duration = NULL;
	bool native = false, nonblocking = false, is_traced = false;
	flags.rate_hz = 0; // the default depends on how the program is watched
	const struct fm_option options[] = {
		{ "output", 'o', FM_OPT_TEXT, &output, "FILE",
		  "where to write (default: profile.fathom, or profile.EXT of the format); in its name, %p is the "
		  "process "
		  "id, %t the time, %r the rank that mpirun or srun gave" },
		{ "format", 'f', FM_OPT_TEXT, &format, "FORMAT",
		  "fathom (default), or write speedscope, raw, flamegraph, chrometrace, ... directly" },
		{ "rate", 'r', FM_OPT_UINT, &flags.rate_hz, "HZ",
		  "samples per second of CPU time (default 1000; 10k is fine); with --pid, looks per second (default "
		  "100)" },
		{ "duration", 'd', FM_OPT_TEXT, &duration, "SECONDS",
		  "ask the program to stop after so long (default: unlimited)" },
		{ "native", 'n', FM_OPT_FLAG, &native, NULL, "native frames too: always so; taken for py-spy's sake" },
		FM_CAPTURE_OPTIONS(&flags),
		{ "subprocesses", 's', FM_OPT_FLAG, &view.processes, NULL,
		  "child processes are always followed; this names them in each stack" },
		{ "threads", 't', FM_OPT_FLAG, &view.threads, NULL, "the thread is the first frame of every stack" },
		{ "gil", 'g', FM_OPT_FLAG, &view.gil_only, NULL, "only samples in the interpreter itself" },
		{ "idle", 'i', FM_OPT_FLAG, &view.idle, NULL, "waiting samples too, where the capture has them" },
		{ "function", 'F', FM_OPT_FLAG, &view.by_function, NULL, "one frame per function instead of per line" },
		{ "nolineno", 0, FM_OPT_FLAG, &view.no_line_numbers, NULL, "leave line numbers out" },
		{ "no-inlines", 0, FM_OPT_FLAG, &view.no_inlines, NULL,
		  "leave inlined calls inside the function around them" },
		{ "full-filenames", 0, FM_OPT_FLAG, &view.full_filenames, NULL, "whole paths instead of file names" },
		{ "pid", 'p', FM_OPT_TEXT, &pid, "PID",
		  "attach to a running process and observe it, until it ends, --duration or Ctrl-C" },
		{ "nonblocking", 0, FM_OPT_FLAG, &nonblocking, NULL,
		  "with --pid: never hold a thread; only those that wait are seen then" },
		FM_MEMORY_OPTIONS(&flags, "memory, too: sampled, or =exact, every allocation (default: time only)"),
		{ "trace", 0, FM_OPT_FLAG, &is_traced, NULL,
		  "every Python call with its times as well; costs time by the call" },
		FM_REDACT_OPTIONS(&flags),
		FM_LISTEN_OPTIONS(&flags),
		{ "hideprogress", 0, FM_OPT_IGNORED, NULL, NULL, NULL },
		{ 0 },
	};
	const struct fm_usage usage = {
		.command = "record",
		.operands = "(-p PID | -- PROGRAM [ARGUMENTS...])",
		.about =
			"Run a program, or observe one that runs, and write a profile of it. py-spy's record flags are "
			"understood.",
		.options = options,
		.examples = "  fathom record -o app.fathom -- python app.py\n"
			    "  fathom record -o profile.json --native --format speedscope -- python app.py\n"
			    "  fathom record -f flamegraph -o flame.svg -r 500 -t -- python -m mymodule\n"
			    "  fathom record --memory -o app.fathom -- python app.py\n"
			    "  fathom record --trace -f perfetto -o app.pftrace -- python app.py\n"
			    "  fathom record --listen 8086 -o app.fathom -- python app.py    # then, elsewhere: fathom "
			    "live\n"
			    "  fathom record -o server.fathom -p 1234 --duration 10\n"
			    "  mpirun -n 4 fathom record -o rank-%r.fathom -- python app.py\n",
		.stop_at_first_operand = true,
		.max_operands = UINT_MAX,
	};
	struct fm_operands ops;
	int exit_code;
	// What the project may settle: how to capture, not where to and in which form.
	const struct fm_option settled[] = {
		{ "rate", 0, FM_OPT_UINT, &flags.rate_hz, NULL, NULL },
		{ "no-native", 0, FM_OPT_NO_FLAG, &flags.native, NULL, NULL },
		{ "no-children", 0, FM_OPT_NO_FLAG, &flags.children, NULL, NULL },
		{ "max-overhead", 0, FM_OPT_REAL, &flags.max_overhead_pct, NULL, NULL },
		{ "engine", 0, FM_OPT_CHOICE, &flags.engine, "auto|perf|ticker", NULL },
		{ "redact", 0, FM_OPT_FLAG, &flags.is_redacted, NULL, NULL },
		{ "redact-also", 0, FM_OPT_TEXT, &flags.redact_also, NULL, NULL },
		{ "token", 0, FM_OPT_TEXT, &flags.token, NULL, NULL },
		{ 0 },
	};
	struct fm_diag diag;
	if (fm_defaults_apply(settled, false, &diag)) {
		fm_say("%s", diag.text);
		return FM_EXIT_USAGE;
	}
	if (!fm_options_parse(&usage, argc, argv, &ops, &exit_code))
		return exit_code;
	if (!flags.rate_hz)
		flags.rate_hz = pid ? ATTACH_RATE_HZ : 1000;
	uint32_t attach_pid = 0;
	if (pid && (ops.n || !fm_pid_parse(pid, &attach_pid))) {
		fm_say(ops.n ? "either --pid or a program to run, not both" : "--pid wants a process id, not '%s'",
		       pid);
		return FM_EXIT_USAGE;
	}
	if (pid && is_traced) {
		fm_say("--trace is for a program that is started here; in one that runs, fathom.Profiler can trace");
		return FM_EXIT_USAGE;
	}
	if (!pid && ops.n == 0) {
		fm_say("name the program to run after --: fathom record -o F -- python app.py");
		return FM_EXIT_USAGE;
	}
	bool is_foreign = strcmp(format, "fathom") != 0;
	const struct fm_format *foreign = is_foreign ? fm_format_find(format) : NULL;
	if (is_foreign && !foreign) {
		fm_say("no format named '%s'; 'fathom export --list' names them", format);
		return FM_EXIT_USAGE;
	}
	if (duration && !parse_duration(duration, &flags.duration_s)) {
		fm_say("--duration wants seconds or 'unlimited', not '%s'", duration);
		return FM_EXIT_USAGE;
	}
	char profile[4096], named[4096], default_output[64];
	snprintf(default_output, sizeof(default_output), "profile%s", foreign ? foreign->extension : ".fathom");
	if (fm_output_name_expand(output ? output : default_output, pid ? attach_pid : (uint32_t)getpid(), named,
				  sizeof(named), &diag)) {
		fm_say("%s", diag.text);
		return FM_EXIT_USAGE;
	}
	output = named;
	struct fm_capture_options capture = { .argv = ops.v, .output_path = output };
	struct fm_listener listener;
	if (fm_capture_flags_apply(&flags, &capture, &diag) || fm_listener_check(&flags, &diag)) {
		fm_say("%s", diag.text);
		return FM_EXIT_USAGE;
	}
	if (foreign) {
		if (!reserve(output, &diag)) {
			fm_say("%s", diag.text);
			return FM_EXIT_FAILED;
		}
		if (!make_temporary(profile, sizeof(profile))) {
			fm_say("cannot make a temporary file: %m; set TMPDIR to a folder with room");
			return FM_EXIT_FAILED;
		}
		capture.output_path = profile;
	}
	struct fm_traced traced = { 0 };
	fm_listener_open(&listener, &flags, &capture);
	enum fm_err err = is_traced ? fm_traced_begin(&traced, &capture, &diag) : FM_OK;
	if (err) {
		exit_code = FM_EXIT_FAILED;
	} else if (pid) {
		err = observe(attach_pid, !nonblocking, flags.max_overhead_pct, &capture, &diag);
		exit_code = err ? FM_EXIT_FAILED : FM_EXIT_OK;
	} else {
		err = fm_capture_run(&capture, &exit_code, &diag);
	}
	if (err) {
		fm_say("%s", diag.text);
	} else if (foreign && fm_render_write(format, profile, output, &view, &diag)) {
		fm_say("%s", diag.text);
		exit_code = exit_code ? exit_code : FM_EXIT_FAILED;
	}
	if (foreign)
		unlink(profile);
	fm_traced_end(&traced);
	return exit_code;
}
