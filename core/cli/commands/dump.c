// SPDX-License-Identifier: Apache-2.0
// fathom dump: the stacks of all threads of running processes, now. One look into a profile of its
// own (collect/capture/attach.h), read back by the same way as any: names, lines and inlined calls
// are the report's.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "aggregate/analysis/analysis.h"
#include "base/log.h"
#include "base/owner.h"
#include "cli/captures/name_frames.h"
#include "cli/commands/commands.h"
#include "cli/captures/dump_print.h"
#include "cli/options/options.h"
#include "cli/project/project.h"
#include "collect/capture/attach.h"
#include "collect/capture/post_mortem.h"
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
	const char *core_path;
	bool is_json, native, nonblocking, children, is_all, is_reversed, has_locals;
} o = { .native = true };

static const struct fm_option options[] = {
	{ "pid", 'p', FM_OPT_TEXTS, &o.pid_texts, "PID", "the process; repeat it, or separate several with commas" },
	{ "children", 0, FM_OPT_FLAG, &o.children, NULL, "include the processes that it has started" },
	{ "subprocesses", 's', FM_OPT_FLAG, &o.children, NULL, NULL },
	{ "all", 0, FM_OPT_FLAG, &o.is_all, NULL, "all Pythons of this user instead" },
	{ "core", 0, FM_OPT_TEXT, &o.core_path, "FILE", "a process that has ended, read from its core file" },
	{ "locals", 'l', FM_OPT_FLAG, &o.has_locals, NULL,
	  "include the local variables of your own functions; those named like a secret are masked" },
	{ "reverse", 0, FM_OPT_FLAG, &o.is_reversed, NULL, "print the outermost frame first, as in a traceback" },
	{ "json", 'j', FM_OPT_FLAG, &o.is_json, NULL, "print JSON, schema fathom.dump/1" },
	{ "no-native", 0, FM_OPT_NO_FLAG, &o.native, NULL, "Python frames only" },
	{ "native-all", 0, FM_OPT_FLAG, &o.view.native_all, NULL, "include the interpreter's own native frames" },
	{ "no-inlines", 0, FM_OPT_FLAG, &o.view.no_inlines, NULL,
	  "attribute inlined calls to the function that contains them" },
	{ "nonblocking", 0, FM_OPT_FLAG, &o.nonblocking, NULL, "never stop a thread; running threads are not read" },
	{ "native", 'n', FM_OPT_IGNORED, NULL, NULL, NULL },
	{ "full-filenames", 0, FM_OPT_IGNORED, NULL, NULL, NULL },
	{ 0 },
};
static const struct fm_usage usage = {
	.command = "dump",
	.operands = "(-p PID | --all | --core FILE)",
	.about = "Print the stacks of all threads of running processes, Python and native, as they are now. Fathom "
		 "reads waiting threads in place, and stops a running thread for less than a millisecond to read it.",
	.options = options,
	.examples = "  fathom dump -p 1234\n"
		    "  fathom dump -p 1234 --children          # a server and its workers\n"
		    "  fathom dump -p 1234 --locals\n"
		    "  fathom dump --all\n"
		    "  fathom dump --core core.1234 --locals   # where a program crashed\n"
		    "  fathom dump -p 1234 --json | jq '.threads[] | .frames[0]'\n",
};

// ---- reading ----

// A profile of one look is written to path.
static enum fm_err read_processes(const char *path, const struct fm_pids *pids, struct fm_locals *locals,
				  size_t *ret_n_unread, struct fm_diag *ret_why, struct fm_diag *diag)
{
	struct fm_attach_options attach = {
		.pids = pids->v,
		.n_pids = pids->n,
		.children = o.children,
		.output_path = path,
		.native = o.native,
		.may_stop = !o.nonblocking,
		.skips_refused = o.is_all,
		.locals = locals,
		.at_end = fm_name_frames_elsewhere,
	};
	return fm_attach_once(&attach, ret_n_unread, ret_why, diag);
}

static enum fm_err read_core(const char *path, struct fm_locals *locals, struct fm_diag *diag)
{
	struct fm_post_mortem_options core = {
		.core_path = o.core_path, .output_path = path, .native = o.native, .locals = locals
	};
	return fm_post_mortem(&core, diag);
}

// Which processes, where no core file is named. An exit code; -1: go on.
static int find_processes(struct fm_pids *pids)
{
	struct fm_diag diag;
	if (fm_pids_parse(&o.pid_texts, pids, &diag)) {
		fm_say("%s", diag.text);
		return FM_EXIT_USAGE;
	}
	int n_ways = !!o.core_path + o.is_all + (pids->n > 0);
	if (n_ways != 1) {
		fm_say(n_ways ? "one of --pid, --all and --core, not both" : "name the process: fathom dump -p PID");
		return FM_EXIT_USAGE;
	}
	if (o.core_path && (o.children || o.nonblocking)) {
		fm_say("a core file holds one process that has ended: --children and --nonblocking are for running "
		       "processes");
		return FM_EXIT_USAGE;
	}
	if (o.is_all)
		fm_process_all(add_if_python, pids);
	if (!pids->n && !o.core_path) {
		fm_say("no process of this user runs a Python that can be read");
		return FM_EXIT_FAILED;
	}
	return -1;
}

// ---- printing ----

static void print_lacks(const struct fm_profile *profile)
{
	fflush(stdout);
	for (size_t i = 0; i < profile->coverages.n; i++) {
		const struct fm_coverage *c = &profile->coverages.items[i];
		fm_say("not read: %.*s: %.*s", (int)c->what.len, c->what.p, (int)c->why.len, c->why.p);
	}
}

static void print(const struct fm_dump *shown)
{
	if (o.is_json)
		fm_dump_print_json(shown);
	else
		fm_dump_print_text(shown, stdout);
	if (o.core_path)
		print_lacks(shown->analysis->profile);
}

int fm_cmd_dump(int argc, char **argv)
{
	o.view = FM_VIEW_OPTIONS_DEFAULT;
	o.view.full_filenames = true;
	struct fm_operands ops;
	int exit_code;
	static struct fm_pids pids;
	struct fm_diag diag, why = { "" };
	char path[4096];
	if (!fm_options_parse(&usage, argc, argv, &ops, &exit_code))
		return exit_code;
	if ((exit_code = find_processes(&pids)) >= 0)
		return exit_code;
	if (fm_temporary_make(path, sizeof(path), &diag)) {
		fm_say("%s", diag.text);
		return FM_EXIT_FAILED;
	}
	struct fm_locals locals, *wanted = o.has_locals ? &locals : NULL;
	struct fm_redact *redact = NULL;
	struct fm_analysis *a = NULL;
	size_t n_unread = 0;
	fm_locals_init(&locals);
	enum fm_err err = wanted ? fm_redact_create(NULL, &redact, &diag) : FM_OK;
	if (!err)
		err = o.core_path ? read_core(path, wanted, &diag)
				  : read_processes(path, &pids, wanted, &n_unread, &why, &diag);
	if (!err)
		err = fm_render_open(path, &o.view, FM_ANALYSIS_STACKS, &a, &diag);
	unlink(path);
	if (err) {
		fm_say("%s", diag.text);
		fm_locals_deinit(&locals);
		return FM_EXIT_FAILED;
	}
	bool is_there = a->profile->processes.n;
	if (is_there)
		print(&(struct fm_dump){ a, wanted, redact, o.is_reversed, o.core_path });
	else
		fm_say("process %u ended before it could be read", pids.v[0]);
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
