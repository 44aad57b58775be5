// SPDX-License-Identifier: Apache-2.0
// fathom record: capture only, into one file. Understands py-spy's record flags, so that its
// command lines work with the name changed; -f with a foreign format writes that format directly.
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/owner.h"
#include "cli/options/groups.h"
#include "cli/options/options.h"
#include "cli/project/project.h"
#include "cli/commands/commands.h"
#include "cli/live/live.h"
#include "cli/run/injected.h"
#include "cli/run/target.h"
#include "collect/capture/attach.h"
#include "format/output.h"
#include "render/render.h"

// Each look holds every thread that runs for a moment.
#define ATTACH_RATE_HZ 100
// Below this a file is full of what it begins with: code, images, names.
#define LEAST_MAX_BYTES (1u << 20)

// A place for the capture while a foreign format is what is wanted. Writing comes after the run, so
// an impossible place is better said before; and until then nobody else gets it. Open until the
// end.
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

// What only a program that is started here can give is refused, not left out.
static const char *needs_launch(const struct fm_capture_flags *flags, const char *settled_engine)
{
	if (flags->kernel)
		return "--kernel needs a program that Fathom starts: fathom record --kernel -- PROGRAM";
	if (flags->engine != settled_engine)
		return "--engine needs a program that Fathom starts; a running one is observed from outside";
	return NULL;
}

// "app.older.fathom" for "app.fathom".
static void name_older(const char *path, char *ret, size_t cap)
{
	const char *name = strrchr(path, '/'), *dot = strrchr(name ? name : path, '.');
	int stem = (int)(dot ? (size_t)(dot - path) : strlen(path));
	snprintf(ret, cap, "%.*s.older%s", stem, path, dot ? dot : "");
}

static enum fm_err observe(const struct fm_pids *pids, bool may_stop, double max_overhead_pct, uint64_t max_bytes,
			   const struct fm_capture_options *capture, struct fm_diag *diag)
{
	char older[4200];
	name_older(capture->output_path, older, sizeof(older));
	struct fm_attach_options attach = {
		.pids = pids->v,
		.n_pids = pids->n,
		.children = capture->children,
		.max_bytes = max_bytes,
		.older_path = older,
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

// What the command line says. A program runs one command once.
static struct {
	struct fm_capture_flags flags;
	struct fm_view_options view;
	struct fm_option_texts pid_texts;
	const char *output, *format, *duration, *max_size, *call_graph, *aio;
	bool native, nonblocking, is_injected, is_traced, is_cpu_wanted;
} o = { .flags = FM_CAPTURE_FLAGS_DEFAULT, .format = "fathom" };

static const struct fm_option options[] = {
	{ "output", 'o', FM_OPT_TEXT, &o.output, "FILE",
	  "where to write (default: profile.fathom, or profile.EXT of the format); in its name, %p is the "
	  "process "
	  "id, %t the time, %r the rank that mpirun or srun gave" },
	{ "format", 'f', FM_OPT_TEXT, &o.format, "FORMAT",
	  "fathom (default), or write speedscope, raw, flamegraph, chrometrace, ... directly" },
	{ "rate", 'r', FM_OPT_UINT, &o.flags.rate_hz, "HZ",
	  "samples per second of CPU time (default 1000; up to 2k is fine, more disturbs what it measures); "
	  "with --pid, samples per second (default "
	  "100)" },
	{ "duration", 'd', FM_OPT_TEXT, &o.duration, "SECONDS",
	  "ask the program to stop after that long (default: unlimited)" },
	{ "native", 'n', FM_OPT_FLAG, &o.native, NULL, "always on; accepted for compatibility with py-spy" },
	FM_CAPTURE_OPTIONS(&o.flags),
	{ "subprocesses", 's', FM_OPT_FLAG, &o.view.processes, NULL,
	  "child processes are always followed; this names them in each stack" },
	{ "threads", 't', FM_OPT_FLAG, &o.view.threads, NULL, "put the thread first in every stack" },
	{ "gil", 'g', FM_OPT_FLAG, &o.view.gil_only, NULL, "only samples in the interpreter itself" },
	{ "idle", 'i', FM_OPT_FLAG, &o.view.idle, NULL, "include waiting samples, if the capture has them" },
	{ "function", 'F', FM_OPT_FLAG, &o.view.by_function, NULL, "write one frame per function instead of per line" },
	{ "nolineno", 0, FM_OPT_FLAG, &o.view.no_line_numbers, NULL, "leave line numbers out" },
	{ "no-inlines", 0, FM_OPT_FLAG, &o.view.no_inlines, NULL,
	  "attribute inlined calls to the function that contains them" },
	{ "full-filenames", 0, FM_OPT_FLAG, &o.view.full_filenames, NULL, "show full paths instead of file names" },
	{ "pid", 'p', FM_OPT_TEXTS, &o.pid_texts, "PID",
	  "attach to a running process and observe it and what it starts, until it ends, --duration or Ctrl-C; repeat "
	  "it, or separate several with commas" },
	{ "inject", 0, FM_OPT_FLAG, &o.is_injected, NULL,
	  "with --pid: load the agent into the program, to record all that a launched program gives; --memory and "
	  "--trace with --pid also do so" },
	{ "max-size", 0, FM_OPT_TEXT, &o.max_size, "SIZE",
	  "with --pid: keep the latest SIZE (such as 100M) of a long capture, in FILE and FILE's .older" },
	{ "nonblocking", 0, FM_OPT_FLAG, &o.nonblocking, NULL,
	  "with --pid: never stop a thread; see only waiting threads" },
	FM_MEMORY_OPTIONS(&o.flags, "also record memory: sampled, or =exact, every allocation (default: time only)"),
	{ "trace", 0, FM_OPT_FLAG, &o.is_traced, NULL,
	  "also record every Python call with its times; each call costs time" },
	FM_REDACT_OPTIONS(&o.flags),
	FM_LISTEN_OPTIONS(&o.flags),
	{ "freq", 0, FM_OPT_UINT, &o.flags.rate_hz, "HZ", NULL },
	{ "call-graph", 0, FM_OPT_CHOICE, &o.call_graph, "dwarf|fp|lbr",
	  "stacks are always whole; accepted for compatibility with perf, as are -F HZ and -g" },
	{ "sample-cpu", 0, FM_OPT_FLAG, &o.is_cpu_wanted, NULL,
	  "the CPU of every sample is always recorded; accepted for compatibility with perf" },
	{ "aio", 0, FM_OPT_OPTIONAL_TEXT, &o.aio, "N",
	  "writing never delays the program; accepted for compatibility with perf" },
	{ "hideprogress", 0, FM_OPT_IGNORED, NULL, NULL, NULL },
	{ 0 },
};
static const struct fm_usage usage = {
	.command = "record",
	.operands = "(-p PID | -- PROGRAM [ARGUMENTS...])",
	.about = "Run a program, or observe a running one, and write a profile of it. Accepts the flags of py-spy "
		 "record and perf record.",
	.options = options,
	.examples = "  fathom record -o app.fathom -- python app.py\n"
		    "  fathom record -o profile.json --native --format speedscope -- python app.py\n"
		    "  fathom record -f flamegraph -o flame.svg -r 500 -t -- python -m mymodule\n"
		    "  fathom record --memory -o app.fathom -- python app.py\n"
		    "  fathom record --trace -f perfetto -o app.pftrace -- python app.py\n"
		    "  fathom record --listen 8086 -o app.fathom -- python app.py    # then, elsewhere: fathom "
		    "live\n"
		    "  fathom record -o server.fathom -p 1234 --duration 10    # its workers, too\n"
		    "  fathom record -o server.fathom -p 1234 --max-size 200M  # for days\n"
		    "  fathom record -F 999 --call-graph dwarf --sample-cpu -g -- python app.py\n"
		    "  mpirun -n 4 fathom record -o rank-%r.fathom -- python app.py\n",
	.stop_at_first_operand = true,
	.number_letter = 'F',
	.number_option = "rate",
	.max_operands = UINT_MAX,
};

// What the project may settle: how to capture, not where to and in which form.
static const struct fm_option settled[] = {
	{ "rate", 0, FM_OPT_UINT, &o.flags.rate_hz, NULL, NULL },
	{ "no-native", 0, FM_OPT_NO_FLAG, &o.flags.native, NULL, NULL },
	{ "no-children", 0, FM_OPT_NO_FLAG, &o.flags.children, NULL, NULL },
	{ "max-overhead", 0, FM_OPT_REAL, &o.flags.max_overhead_pct, NULL, NULL },
	{ "engine", 0, FM_OPT_CHOICE, &o.flags.engine, "auto|perf|ticker", NULL },
	{ "redact", 0, FM_OPT_FLAG, &o.flags.is_redacted, NULL, NULL },
	{ "redact-also", 0, FM_OPT_TEXT, &o.flags.redact_also, NULL, NULL },
	{ "token", 0, FM_OPT_TEXT, &o.flags.token, NULL, NULL },
	{ 0 },
};

// What does not go together, in one line; NULL = all is well.
static const char *refusal_of(bool is_attached, int n_operands, const char *settled_engine)
{
	if (is_attached && n_operands)
		return "either --pid or a program to run, not both";
	const char *refusal = is_attached ? needs_launch(&o.flags, settled_engine) : NULL;
	if (refusal)
		return refusal;
	if (!is_attached && o.max_size)
		return "--max-size needs --pid: a program that Fathom starts ends by itself";
	if (!is_attached && o.nonblocking)
		return "--nonblocking needs --pid";
	if (!is_attached && o.is_injected)
		return "--inject needs --pid: a program that Fathom starts has the agent from the beginning";
	if (o.is_injected && (o.max_size || o.nonblocking))
		return "--max-size and --nonblocking need a program observed from outside, without --inject, --memory "
		       "and --trace";
	if (!is_attached && n_operands == 0)
		return "name the program to run after --: fathom record -o F -- python app.py";
	if (o.max_size && o.flags.listen)
		return "--listen shows one file as it grows, but --max-size makes several: give one of them";
	if (o.max_size && strcmp(o.format, "fathom"))
		return "--max-size is for fathom's own format; 'fathom export' writes others from it";
	return NULL;
}

static enum fm_err inject(const struct fm_pids *pids, struct fm_capture_options *capture, int *ret_exit_code,
			  struct fm_diag *diag)
{
	static struct fm_injected injected;
	*ret_exit_code = FM_EXIT_FAILED;
	if (pids->n != 1)
		return fm_diag_set(diag, FM_E_USAGE, "--inject, --memory and --trace take one process; give one --pid");
	enum fm_err err = fm_injected_begin(&injected, pids->v[0], o.is_traced, capture, diag);
	if (err)
		return err;
	err = fm_capture_run(capture, ret_exit_code, diag);
	struct fm_diag failure;
	if (fm_injected_end(&injected, &failure) && !err) {
		*diag = failure;
		err = FM_E_REFUSED;
		unlink(capture->output_path); // there is nothing in it
	}
	*ret_exit_code = err ? FM_EXIT_FAILED : FM_EXIT_OK; // how the program ends is its parent's to tell
	return err;
}

// The capture itself, and what is made of it in another's format. output: where that goes.
static int perform(const struct fm_pids *pids, uint64_t max_bytes, struct fm_capture_options *capture, bool is_foreign,
		   const char *output)
{
	struct fm_traced traced = { 0 };
	struct fm_listener listener;
	struct fm_diag diag;
	int exit_code;
	fm_listener_open(&listener, &o.flags, capture);
	enum fm_err err = o.is_traced && !o.is_injected ? fm_traced_begin(&traced, capture, &diag) : FM_OK;
	if (err) {
		exit_code = FM_EXIT_FAILED;
	} else if (o.is_injected) {
		err = inject(pids, capture, &exit_code, &diag);
	} else if (pids->n > 0) {
		err = observe(pids, !o.nonblocking, o.flags.max_overhead_pct, max_bytes, capture, &diag);
		exit_code = err ? FM_EXIT_FAILED : FM_EXIT_OK;
	} else {
		err = fm_capture_run(capture, &exit_code, &diag);
	}
	if (err) {
		fm_say("%s", diag.text);
	} else if (is_foreign && fm_render_write(o.format, capture->output_path, output, &o.view, &diag)) {
		fm_say("%s", diag.text);
		exit_code = exit_code ? exit_code : FM_EXIT_FAILED;
	}
	if (is_foreign)
		unlink(capture->output_path);
	fm_traced_end(&traced);
	return exit_code;
}

int fm_cmd_record(int argc, char **argv)
{
	o.view = FM_VIEW_OPTIONS_DEFAULT;
	o.flags.rate_hz = 0; // the default depends on how the program is watched
	struct fm_operands ops;
	int exit_code;
	struct fm_diag diag;
	if (fm_defaults_apply(settled, false, &diag)) {
		fm_say("%s", diag.text);
		return FM_EXIT_USAGE;
	}
	const char *settled_engine = o.flags.engine;
	if (!fm_options_parse(&usage, argc, argv, &ops, &exit_code))
		return exit_code;
	if (o.call_graph || o.aio || o.is_cpu_wanted)
		o.view.gil_only = false; // -g of perf: call graphs, which there always are
	static struct fm_pids pids;
	if (fm_pids_parse(&o.pid_texts, &pids, &diag)) {
		fm_say("%s", diag.text);
		return FM_EXIT_USAGE;
	}
	bool is_attached = pids.n > 0;
	o.is_injected |= is_attached && (o.flags.memory || o.flags.memory_log || o.is_traced);
	if (!o.flags.rate_hz)
		o.flags.rate_hz = is_attached && !o.is_injected ? ATTACH_RATE_HZ : 1000;
	uint64_t max_bytes = o.max_size ? fm_size_parse(o.max_size) : 0;
	const char *refusal = refusal_of(is_attached, ops.n, settled_engine);
	if (refusal) {
		fm_say("%s", refusal);
		return FM_EXIT_USAGE;
	}
	if (o.max_size && max_bytes < LEAST_MAX_BYTES) {
		fm_say("--max-size wants a size of 1M or more, such as 200M, not '%s'", o.max_size);
		return FM_EXIT_USAGE;
	}
	bool is_foreign = strcmp(o.format, "fathom") != 0;
	const struct fm_format *foreign = is_foreign ? fm_format_find(o.format) : NULL;
	if (is_foreign && !foreign) {
		fm_say("no format named '%s'; 'fathom export --list' names them", o.format);
		return FM_EXIT_USAGE;
	}
	if (o.duration && !parse_duration(o.duration, &o.flags.duration_s)) {
		fm_say("--duration wants seconds or 'unlimited', not '%s'", o.duration);
		return FM_EXIT_USAGE;
	}
	char profile[4096], named[4096], default_output[64];
	snprintf(default_output, sizeof(default_output), "profile%s", foreign ? foreign->extension : ".fathom");
	if (fm_output_name_expand(o.output ? o.output : default_output, is_attached ? pids.v[0] : (uint32_t)getpid(),
				  named, sizeof(named), &diag)) {
		fm_say("%s", diag.text);
		return FM_EXIT_USAGE;
	}
	o.output = named;
	struct fm_capture_options capture = { .argv = ops.v, .output_path = o.output };
	if (fm_capture_flags_apply(&o.flags, &capture, &diag) || fm_listener_check(&o.flags, &diag)) {
		fm_say("%s", diag.text);
		return FM_EXIT_USAGE;
	}
	if (foreign) {
		if (!reserve(o.output, &diag)) {
			fm_say("%s", diag.text);
			return FM_EXIT_FAILED;
		}
		if (fm_temporary_make(profile, sizeof(profile), &diag)) {
			fm_say("%s", diag.text);
			return FM_EXIT_FAILED;
		}
		capture.output_path = profile;
	}
	return perform(&pids, max_bytes, &capture, foreign != NULL, o.output);
}
