// SPDX-License-Identifier: Apache-2.0
// fathom top: a recording that is watched while it is made. The recorder is `fathom record
// --listen` in a process of its own, the screen is `fathom live`'s: what is shown is what the file
// has, and the file can be kept.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/utf8.h"
#include "cli/commands/commands.h"
#include "cli/options/options.h"
#include "collect/process/proc.h"

#define MAX_ARGS 4096

// ---- which process ----

struct wanted {
	const char *name;
	struct fm_pids *found;
};

// A name is part of the command line of a process of this user, which is not our own.
static void take_if_named(void *ctx, uint32_t pid)
{
	const struct wanted *w = ctx;
	char text[4096];
	if (pid == (uint32_t)getpid() || !fm_process_is_same_user(pid))
		return;
	size_t n = fm_process_read_proc(pid, "cmdline", text, sizeof(text));
	if (memmem(text, n, w->name, strlen(w->name)))
		fm_pids_add(w->found, pid);
}

static uint32_t parent_among(const struct fm_pids *pids, uint32_t pid)
{
	uint32_t parent = fm_process_parent(pid);
	for (size_t i = 0; i < pids->n; i++)
		if (pids->v[i] == parent)
			return parent;
	return 0;
}

// A server and its workers often have one name: those whose parents are among them are found with
// these.
static bool find_by_name(const char *name, struct fm_pids *ret)
{
	static struct fm_pids found;
	fm_process_all(take_if_named, &(struct wanted){ name, &found });
	for (size_t i = 0; i < found.n; i++)
		if (!parent_among(&found, found.v[i]))
			fm_pids_add(ret, found.v[i]);
	if (ret->n == 1)
		return true;
	if (!ret->n) {
		fm_say("no process of this user has '%s' in its command line; name one with -p PID", name);
		return false;
	}
	fm_say("%zu processes have '%s' in their command lines; name one with -p: %u, %u%s", ret->n, name, ret->v[0],
	       ret->v[1], ret->n > 2 ? ", ..." : "");
	return false;
}

// ---- the recording ----

// Free a moment ago; whoever is faster makes the recorder say so.
static uint16_t find_port(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof(at);
	_cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool is_bound =
		fd >= 0 && !bind(fd, (struct sockaddr *)&at, len) && !getsockname(fd, (struct sockaddr *)&at, &len);
	return is_bound ? ntohs(at.sin_port) : 0;
}

static void start_recorder(struct fm_top *top, char **args, const char *said)
{
	fflush(NULL);
	top->recorder = fork();
	if (top->recorder)
		return;
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	setpgid(0, 0); // Ctrl-C is for the screen
	int null = open("/dev/null", O_RDWR), to = open(said, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	dup2(null, STDIN_FILENO);
	dup2(to, STDOUT_FILENO);
	dup2(to, STDERR_FILENO);
	execv("/proc/self/exe", args);
	_exit(127);
}

static void print_said(const char *path)
{
	char text[4096];
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, text, sizeof(text)) : 0;
	for (char *line = text, *end; n > 0 && line < text + n; line = end + 1) {
		end = memchr(line, '\n', (size_t)(text + n - line));
		end = end ? end : text + n;
		if (memmem(line, (size_t)(end - line), "watch with", 10))
			continue; // its invitation was ours
		fm_utf8_print(stderr, (struct fm_str){ line, (uint32_t)(end - line) });
		fputc('\n', stderr);
	}
}

// Ends the recording, and waits until its file is whole.
static int end_recorder(struct fm_top *top)
{
	int status = 0;
	if (top->is_over)
		return 0;
	kill(top->recorder, SIGTERM);
	while (waitpid(top->recorder, &status, 0) < 0 && errno == EINTR)
		;
	top->is_over = true;
	return status;
}

static bool make_folder(char *ret, size_t cap)
{
	const char *dir = getenv("TMPDIR");
	snprintf(ret, cap, "%s/fathom-top-XXXXXX", dir && *dir ? dir : "/tmp");
	if (mkdtemp(ret))
		return true;
	fm_say("cannot make a temporary folder: %m; set TMPDIR to one with room");
	return false;
}

static int watch(struct fm_top *top, const struct fm_pids *pids, const struct fm_operands *ops, const char *rate)
{
	char folder[PATH_MAX], path[PATH_MAX + 32], said[PATH_MAX + 32], port[16], joined[FM_MAX_PIDS] = "";
	char *args[MAX_ARGS] = { "fathom", "record", "--listen", port, "-o", path };
	int n = 6;
	if (!make_folder(folder, sizeof(folder)))
		return FM_EXIT_FAILED;
	snprintf(path, sizeof(path), "%s/top.fathom", folder);
	snprintf(said, sizeof(said), "%s/output.txt", folder);
	snprintf(port, sizeof(port), "%u", top->port = find_port());
	for (size_t i = 0; i < pids->n && strlen(joined) < sizeof(joined) - 16; i++)
		snprintf(joined + strlen(joined), sizeof(joined) - strlen(joined), "%s%u", i ? "," : "", pids->v[i]);
	snprintf(top->pids, sizeof(top->pids), "%.63s", joined);
	if (rate)
		args[n++] = "-r", args[n++] = (char *)rate;
	args[n++] = pids->n ? "-p" : "--";
	if (pids->n)
		args[n++] = joined;
	for (int i = 0; !pids->n && i < ops->n && n < MAX_ARGS - 1; i++)
		args[n++] = ops->v[i];
	top->path = path;
	start_recorder(top, args, said);
	int exit_code = fm_live_watch(top);
	end_recorder(top);
	if (exit_code || !pids->n)
		print_said(said);
	if (top->is_file_kept)
		fm_say("the recording is %s: 'fathom report' and 'fathom view' show it", path);
	else
		unlink(path);
	unlink(said);
	rmdir(folder);
	return exit_code;
}

int fm_cmd_top(int argc, char **argv)
{
	struct fm_option_texts pid_texts = { .n = 0 };
	const char *rate = NULL;
	bool has_dashes = false;
	for (int i = 1; i < argc; i++)
		has_dashes |= !strcmp(argv[i], "--");
	const struct fm_option options[] = {
		{ "pid", 'p', FM_OPT_TEXTS, &pid_texts, "PID",
		  "the process; repeat it, or separate several with commas" },
		{ "rate", 'r', FM_OPT_TEXT, &rate, "HZ",
		  "samples per second (default 100; 1000 for a program that Fathom starts)" },
		{ 0 },
	};
	const struct fm_usage usage = {
		.command = "top",
		.operands = "(-p PID | NAME | -- PROGRAM [ARGUMENTS...])",
		.about = "Watch a running process and what it starts, or a program that Fathom starts, full screen: "
			 "threads with their state and CPU, the hottest functions by own and total time. Fathom loads "
			 "nothing into a running process. Keys: q quits, space pauses, s sorts, d dumps all stacks, r "
			 "keeps the recording, ? explains.",
		.options = options,
		.examples = "  fathom top -p 1234\n"
			    "  fathom top gunicorn                  # by a part of its command line\n"
			    "  fathom top -- python app.py\n",
		.stop_at_first_operand = true,
		.max_operands = UINT_MAX,
	};
	struct fm_operands ops;
	int exit_code;
	if (!fm_options_parse(&usage, argc, argv, &ops, &exit_code))
		return exit_code;
	static struct fm_pids pids;
	struct fm_diag diag;
	if (fm_pids_parse(&pid_texts, &pids, &diag)) {
		fm_say("%s", diag.text);
		return FM_EXIT_USAGE;
	}
	if (pids.n ? ops.n > 0 : ops.n == 0 || (ops.n > 1 && !has_dashes)) {
		fm_say("name what to watch: fathom top -p PID, fathom top NAME, or fathom top -- PROGRAM "
		       "[ARGUMENTS...]");
		return FM_EXIT_USAGE;
	}
	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
		fm_say("top needs a terminal; in scripts, use 'fathom record --listen' and 'fathom live --once "
		       "--json'");
		return FM_EXIT_USAGE;
	}
	if (!pids.n && !has_dashes && !find_by_name(ops.v[0], &pids))
		return FM_EXIT_FAILED;
	return watch(&(struct fm_top){ 0 }, &pids, &ops, rate);
}
