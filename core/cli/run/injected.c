// SPDX-License-Identifier: Apache-2.0
#include "cli/run/injected.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "cli/project/project.h"
#include "collect/capture/agent_path.h"
#include "collect/capture/capture.h"
#include "collect/process/proc.h"

// A thread that runs Python code takes the script within milliseconds. Others are asked by turns;
// who watches a server that waits for a request has to wait, too.
#define TURN_NS 250000000u
#define JOIN_NS 10000000000u
#define LEAVE_NS 2000000000u
#define STOP_NS 1000000000u
#define NAP_NS 2000000l

static volatile sig_atomic_t is_interrupted;

static void on_signal(int sig)
{
	(void)sig;
	is_interrupted = 1;
}

// ---- scripts ----

// Any bytes but 0, as Python has them in a str: what is not UTF-8 as surrogates (PEP 383). By
// methods of C alone, as a trace may be on.
static void write_path(FILE *f, const char *path)
{
	fputs("b'", f);
	for (; *path; path++)
		fprintf(f, isalnum((unsigned char)*path) || strchr("/._-", *path) ? "%c" : "\\x%02x",
			(unsigned char)*path);
	fputs("'.decode('utf-8', 'surrogateescape')", f);
}

static void path_of(const struct fm_injected *in, const char *name, char *ret, size_t cap)
{
	snprintf(ret, cap, "%s/%s", in->dir, name);
}

// A script that calls a method of the agent's and leaves an answer: "done", or what went wrong. It
// calls no Python function, which would be in the trace, and leaves no name in the program.
static bool write_script(const struct fm_injected *in, const char *path, const char *method, const char *argument)
{
	char answer[512];
	path_of(in, "answer", answer, sizeof(answer));
	FILE *f = fopen(path, "we");
	if (!f)
		return false;
	fputs("import _imp, os, sys\nanswer = ", f);
	write_path(f, answer);
	fputs("\n"
	      "try:\n"
	      "    spec = type(sys.implementation)(name='fathom._agent', origin=",
	      f);
	write_path(f, in->agent);
	fputs(")\n"
	      "    agent = _imp.create_dynamic(spec)\n"
	      "    _imp.exec_dynamic(agent)\n",
	      f);
	fprintf(f, "    agent.%s(", method);
	if (argument)
		write_path(f, argument);
	fputs(")\n", f);
	if (argument && in->is_traced)
		fputs("    agent.trace_start(0)\n", f);
	fputs("    word = 'done'\n"
	      "except Exception as error:\n"
	      "    word = str(error)\n"
	      "try:\n"
	      "    fd = os.open(answer + '.part', os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)\n"
	      "    os.write(fd, word.encode('utf-8', 'replace'))\n"
	      "    os.close(fd)\n"
	      "    os.replace(answer + '.part', answer)\n"
	      "except OSError:\n"
	      "    pass\n", // nobody waits for it any more
	      f);
	return fclose(f) == 0;
}

// True when there is one, which is taken away.
static bool take_answer(const struct fm_injected *in, char *ret, size_t cap)
{
	char path[512];
	path_of(in, "answer", path, sizeof(path));
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	if (!f)
		return false;
	size_t n = fread(ret, 1, cap - 1, f);
	ret[n] = 0;
	unlink(path);
	return true;
}

// Lets the program call a method of the agent's, and waits for that. Not FM_OK: it did not, by then,
// and will not.
static enum fm_err call(struct fm_injected *in, const char *method, const char *argument, uint64_t most_ns,
			struct fm_diag *diag)
{
	char script[512], answer[200];
	path_of(in, method, script, sizeof(script));
	if (!write_script(in, script, method, argument))
		return fm_diag_set(diag, FM_E_IO, "cannot write %s: %m", script);
	uint64_t since_ns = fm_now_ns(), asked_ns = 0;
	bool has_said = false, has_answer = false, is_withdrawn = false;
	for (uint64_t now_ns = since_ns; !has_answer && !is_withdrawn; now_ns = fm_now_ns()) {
		if (!asked_ns || now_ns - asked_ns > TURN_NS) {
			(void)fm_remote_exec_ask(in->exec, script); // another turn comes
			asked_ns = now_ns;
		}
		if (!has_said && argument && now_ns - since_ns > 4 * TURN_NS) {
			fm_say("waiting for process %u to run Python code", in->pid);
			has_said = true;
		}
		nanosleep(&(struct timespec){ .tv_nsec = NAP_NS }, NULL);
		has_answer = take_answer(in, answer, sizeof(answer));
		bool is_late = now_ns - since_ns > most_ns || (argument && is_interrupted);
		// Who has begun with it is waited for.
		is_withdrawn = fm_process_is_over(-1, in->pid) || (is_late && fm_remote_exec_withdraw(in->exec)) ||
			       now_ns - since_ns > most_ns + JOIN_NS;
	}
	unlink(script);
	fm_remote_exec_done(in->exec);
	in->has_answered |= has_answer;
	if (!has_answer)
		return fm_diag_set(diag, FM_E_NOT_FOUND, "process %u ran no Python code for %.0f s", in->pid,
				   (double)(fm_now_ns() - since_ns) * 1e-9);
	if (strcmp(answer, "done") != 0)
		return fm_diag_set(diag, FM_E_REFUSED, "process %u: %s", in->pid, answer);
	return FM_OK;
}

// ---- the capture ----

static void join(const char *ring_path, void *arg)
{
	struct fm_injected *in = arg;
	struct sigaction act = { .sa_handler = on_signal };
	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	sigaction(SIGHUP, &act, NULL);
	in->has_failed = call(in, "start", ring_path, JOIN_NS, &in->failure) != FM_OK;
	if (!in->has_failed)
		fm_say("the agent is in process %u; Ctrl-C takes its hooks out", in->pid);
}

// True: the capture is over, whatever the program says.
static bool poll_end(uint32_t pid, uint64_t elapsed_ns, void *arg)
{
	struct fm_injected *in = arg;
	struct fm_diag unheard;
	(void)pid;
	bool is_late = in->duration_ns && elapsed_ns >= in->duration_ns;
	if (in->has_failed)
		return true;
	if (in->stopping_ns || (!is_late && !is_interrupted))
		return false;
	in->stopping_ns = elapsed_ns;
	return call(in, "stop", NULL, STOP_NS, &unheard) != FM_OK;
}

static void read_command(struct fm_injected *in)
{
	size_t len = fm_process_read_proc(in->pid, "cmdline", in->command, sizeof(in->command)), n = 0;
	for (size_t at = 0; at < len && n + 1 < sizeof(in->argv) / sizeof(*in->argv); n++) {
		in->argv[n] = in->command + at;
		at += strlen(in->command + at) + 1;
	}
	in->argv[n] = NULL;
}

static bool is_same_root(uint32_t pid)
{
	char path[64];
	struct stat theirs, ours;
	snprintf(path, sizeof(path), "/proc/%u/root", pid);
	return stat(path, &theirs) == 0 && stat("/", &ours) == 0 && theirs.st_dev == ours.st_dev &&
	       theirs.st_ino == ours.st_ino;
}

enum fm_err fm_injected_begin(struct fm_injected *in, uint32_t pid, bool is_traced, struct fm_capture_options *capture,
			      struct fm_diag *diag)
{
	*in = (struct fm_injected){ .pid = pid,
				    .is_traced = is_traced,
				    .duration_ns = (uint64_t)(capture->duration_s * 1e9) };
	if (!fm_process_state(pid, 0))
		return fm_diag_set(diag, FM_E_NOT_FOUND, "there is no process %u", pid);
	if (!fm_process_is_same_user(pid) || !is_same_root(pid) || fm_process_own_pid(pid) != pid)
		return fm_diag_set(
			diag, FM_E_REFUSED,
			"process %u belongs to another user or container, into which the agent is not "
			"loaded; run fathom there, or observe it from outside without --memory, --trace and --inject",
			pid);
	enum fm_err err = fm_agent_path_find(in->agent, sizeof(in->agent), diag);
	if (!err)
		err = fm_remote_exec_open(pid, &in->exec, diag);
	if (err)
		return err;
	if ((err = fm_temporary_folder(in->dir, sizeof(in->dir), diag))) {
		fm_remote_exec_close(in->exec);
		return err;
	}
	read_command(in);
	capture->argv = in->argv;
	capture->beside_pid = pid;
	capture->on_ready = join;
	capture->on_poll = poll_end;
	capture->on_ready_arg = capture->on_poll_arg = in;
	return FM_OK;
}

enum fm_err fm_injected_end(struct fm_injected *in, struct fm_diag *diag)
{
	struct fm_diag unheard;
	if (in->has_failed)
		*diag = in->failure;
	if (in->has_answered && !fm_process_is_over(-1, in->pid) && call(in, "leave", NULL, LEAVE_NS, &unheard))
		fm_say("process %u ran no Python code that could take the agent's hooks out; they stay, and do nothing",
		       in->pid);
	fm_remote_exec_close(in->exec);
	if (in->dir[0])
		rmdir(in->dir);
	return in->has_failed ? FM_E_REFUSED : FM_OK;
}
