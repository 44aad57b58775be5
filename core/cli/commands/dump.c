// SPDX-License-Identifier: Apache-2.0
// fathom dump: the stacks of all threads of running processes, now. One look into a profile of its
// own (collect/capture/attach.h), read back by the same way as any: names, lines and inlined calls
// are the report's.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "aggregate/analysis/analysis.h"
#include "base/log.h"
#include "cli/captures/name_frames.h"
#include "cli/commands/commands.h"
#include "cli/captures/dump_print.h"
#include "cli/options/options.h"
#include "cli/project/project.h"
#include "collect/capture/attach.h"
#include "collect/process/proc.h"
#include "collect/remote/remote.h"
#include "render/render.h"

// ---- every Python of this user ----

static bool has_python(uint32_t pid)
{
	struct fm_remote_files *files = fm_remote_files_create();
	struct fm_remote *remote = fm_remote_create(pid, files, NULL, 0);
	uint64_t pc;
	uint32_t hexversion;
	bool has = fm_remote_find_python(remote, &pc, &hexversion);
	fm_remote_destroy(remote);
	fm_remote_files_destroy(files);
	return has;
}

static void add_if_python(void *ctx, uint32_t pid)
{
	if (pid != (uint32_t)getpid() && fm_process_is_same_user(pid) && has_python(pid))
		fm_pids_add(ctx, pid);
}

// What the command line says. A program runs one command once.
static struct {
	struct fm_view_options view;
	struct fm_option_texts pid_texts;
	bool is_json, native, nonblocking, children, is_all, is_reversed, has_locals;
} o = { .native = true };

static const struct fm_option options[] = {
	{ "pid", 'p', FM_OPT_TEXTS, &o.pid_texts, "PID", "the process; for several, repeat it or put commas between" },
	{ "children", 0, FM_OPT_FLAG, &o.children, NULL, "the processes that it has started, too" },
	{ "subprocesses", 's', FM_OPT_FLAG, &o.children, NULL, NULL },
	{ "all", 0, FM_OPT_FLAG, &o.is_all, NULL, "every Python of this user instead" },
	{ "locals", 'l', FM_OPT_FLAG, &o.has_locals, NULL,
	  "the local variables of your own functions, too; what is named like a secret is masked" },
	{ "reverse", 0, FM_OPT_FLAG, &o.is_reversed, NULL, "the outermost frame first, as in a traceback" },
	{ "json", 'j', FM_OPT_FLAG, &o.is_json, NULL, "for machines, schema fathom.dump/1" },
	{ "no-native", 0, FM_OPT_NO_FLAG, &o.native, NULL, "Python frames only" },
	{ "native-all", 0, FM_OPT_FLAG, &o.view.native_all, NULL, "the interpreter's own native frames, too" },
	{ "no-inlines", 0, FM_OPT_FLAG, &o.view.no_inlines, NULL,
	  "leave inlined calls inside the function that the compiler put them into" },
	{ "nonblocking", 0, FM_OPT_FLAG, &o.nonblocking, NULL, "never stop a thread; running threads are not read" },
	{ "native", 'n', FM_OPT_IGNORED, NULL, NULL, NULL },
	{ "full-filenames", 0, FM_OPT_IGNORED, NULL, NULL, NULL },
	{ 0 },
};
static const struct fm_usage usage = {
	.command = "dump",
	.operands = "(-p PID | --all)",
	.about = "Print the stacks of all threads of running processes, Python and native, as they are now. "
		 "Threads "
		 "that wait are read in place; a running one is stopped while it is read, for less than a "
		 "millisecond.",
	.options = options,
	.examples = "  fathom dump -p 1234\n"
		    "  fathom dump -p 1234 --children          # a server and its workers\n"
		    "  fathom dump -p 1234 --locals\n"
		    "  fathom dump --all\n"
		    "  fathom dump -p 1234 --json | jq '.threads[] | .frames[0]'\n",
};

int fm_cmd_dump(int argc, char **argv)
{
	o.view = FM_VIEW_OPTIONS_DEFAULT;
	o.view.full_filenames = true;
	struct fm_operands ops;
	int exit_code;
	if (!fm_options_parse(&usage, argc, argv, &ops, &exit_code))
		return exit_code;
	static struct fm_pids pids;
	struct fm_diag diag, why;
	if (fm_pids_parse(&o.pid_texts, &pids, &diag)) {
		fm_say("%s", diag.text);
		return FM_EXIT_USAGE;
	}
	if (o.is_all ? pids.n > 0 : pids.n == 0) {
		fm_say(o.is_all ? "either --pid or --all, not both" : "name the process: fathom dump -p PID");
		return FM_EXIT_USAGE;
	}
	if (o.is_all)
		fm_process_all(add_if_python, &pids);
	if (!pids.n) {
		fm_say("no process of this user runs a Python that can be read");
		return FM_EXIT_FAILED;
	}
	char path[4096];
	if (fm_temporary_make(path, sizeof(path), &diag)) {
		fm_say("%s", diag.text);
		return FM_EXIT_FAILED;
	}
	struct fm_locals locals;
	struct fm_redact *redact = NULL;
	fm_locals_init(&locals);
	if (o.has_locals && fm_redact_create(NULL, &redact, &diag)) {
		fm_say("%s", diag.text);
		return FM_EXIT_FAILED;
	}
	struct fm_attach_options attach = {
		.pids = pids.v,
		.n_pids = pids.n,
		.children = o.children,
		.output_path = path,
		.native = o.native,
		.may_stop = !o.nonblocking,
		.skips_refused = o.is_all,
		.locals = o.has_locals ? &locals : NULL,
		.at_end = fm_name_frames_elsewhere,
	};
	struct fm_analysis *a = NULL;
	size_t n_unread = 0;
	enum fm_err err = fm_attach_once(&attach, &n_unread, &why, &diag);
	if (!err)
		err = fm_render_open(path, &o.view, FM_ANALYSIS_STACKS, &a, &diag);
	unlink(path);
	if (err) {
		fm_say("%s", diag.text);
		return FM_EXIT_FAILED;
	}
	bool is_there = a->profile->processes.n;
	struct fm_dump shown = { a, o.has_locals ? &locals : NULL, redact, o.is_reversed };
	if (!is_there)
		fm_say("process %u ended before it could be read", pids.v[0]);
	else if (o.is_json)
		fm_dump_print_json(&shown);
	else
		fm_dump_print_text(&shown, stdout);
	if (n_unread && !o.nonblocking) {
		fflush(stdout);
		fm_say("%zu thread%s not read: %s", n_unread, n_unread == 1 ? " was" : "s were",
		       why.text[0] ? why.text : "they did not stop within two seconds; try again");
	}
	exit_code = is_there && !ferror(stdout) && (o.nonblocking || !n_unread) ? FM_EXIT_OK : FM_EXIT_FAILED;
	fm_analysis_close(a);
	fm_locals_deinit(&locals);
	return exit_code;
}
