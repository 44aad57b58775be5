// SPDX-License-Identifier: Apache-2.0
#include "cli/run/injected.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/captures/name_frames.h"
#include "collect/capture/agent_path.h"
#include "collect/capture/capture.h"
#include "collect/process/proc.h"
#include "format/writer.h"

// A thread that runs Python code takes the script within milliseconds. Others are asked by turns;
// who watches a server that waits for a request has to wait, too.
#define TURN_NS 250000000u
#define JOIN_NS 10000000000u
#define LEAVE_NS 2000000000u
#define STOP_NS 1000000000u
#define NAP_NS 2000000l
#define MAX_CALLS 16u
#define SIGNAL_AGAIN_NS 200000000l

// What the script says when a handler raised meanwhile; and at the end of its answer, when the signal
// comes again.
#define SIGNAL_AGAIN " +"
#define SIGNAL_FIRST "a signal came just then; try again"
#define SIGNAL_LATER "a signal came just after; try again"

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
	snprintf(ret, cap, "%s/%s", in->reach.dir, name);
}

// A script that calls a method of the agent's and leaves an answer: "done", or what went wrong. It
// calls no Python function, which would be in the trace, and leaves no name in the program. A child
// that was forked meanwhile has the request, too, and does nothing.
//
// A signal's handler may run while the script does. What it raises is the program's to get: the
// signal is raised again, by a thread and later, so that the script has ended.
static bool write_script(const struct fm_injected *in, const char *method, const char *argument)
{
	char answer[512];
	path_of(in, in->answer, answer, sizeof(answer));
	FILE *f = fm_reach_write(&in->reach, method);
	if (!f)
		return false;
	fprintf(f,
		"import _imp, _signal, _thread, os, sys, time\n"
		"word, signum, n, codes, begun, early = '', 0, 0, {}, 0, globals().get('e')\n"
		"while n < 3 and os.getpid() == %u:\n"
		"    n += 1\n"
		"    try:\n"
		"        if early and not signum:\n" // what was raised before this script
		"            raise early\n"
		"        if not word:\n"
		"            spec = type(sys.implementation)(name='fathom._agent', origin=",
		fm_process_own_pid(in->pid));
	write_path(f, in->reach.agent);
	fputs(")\n"
	      "            agent = _imp.create_dynamic(spec)\n"
	      "            _imp.exec_dynamic(agent)\n",
	      f);
	fprintf(f, "            begun = 1\n            agent.%s(", method);
	if (argument)
		write_path(f, argument);
	fputs(")\n", f);
	if (argument && in->is_traced)
		fputs("            agent.trace_start(0)\n", f);
	fputs("            word = 'done'\n"
	      "        answer = ",
	      f);
	write_path(f, answer);
	fputs("\n"
	      "        fd = os.open(answer + '.part', os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)\n"
	      "        os.write(fd, (word + (signum and '" SIGNAL_AGAIN "' or '')).encode('utf-8', 'replace'))\n"
	      "        os.close(fd)\n"
	      "        os.replace(answer + '.part', answer)\n"
	      "        break\n"
	      "    except BaseException as error:\n"
	      "        if isinstance(error, KeyboardInterrupt):\n"
	      "            signum = _signal.SIGINT\n"
	      "        for i in _signal.valid_signals():\n"
	      "            handler = _signal.getsignal(i)\n"
	      "            code = getattr(getattr(handler, '__func__', handler), '__code__', 0)\n"
	      "            codes[code or getattr(getattr(handler, '__call__', 0), '__code__', 0)] = i\n"
	      "        early = 0\n"
	      "        trace = error.__traceback__.tb_next\n"
	      "        while trace:\n"
	      "            if trace.tb_frame.f_code in codes:\n"
	      "                signum = codes[trace.tb_frame.f_code]\n" // one handler may serve several
	      "                for value in trace.tb_frame.f_locals.values():\n"
	      "                    value = value[0] if isinstance(value, tuple) and value else value\n"
	      "                    if isinstance(value, int) and value in _signal.valid_signals():\n"
	      "                        signum = int(value)\n"
	      "            trace = trace.tb_next\n"
	      "        if isinstance(error, OSError) and word and not signum:\n"
	      "            break\n" // nobody waits for it any more
	      "        if signum:\n"
	      "            word = word or (begun and '" SIGNAL_LATER "' or '" SIGNAL_FIRST "')\n"
	      "        word = word or str(error)\n"
	      "if signum:\n"
	      "    _thread.start_new_thread(lambda: (time.sleep(.05), _signal.raise_signal(signum)), ())\n",
	      f);
	return fclose(f) == 0;
}

// What is asked for where that is not the script itself: lines that the interpreter has read and
// compiled in no time. False: they cannot be written.
#define FIRST "first"

static bool write_first(const struct fm_injected *in, char script[static 512])
{
	char lines[4096];
	uint32_t len = fm_remote_exec_lines(in->exec, script, lines, sizeof(lines));
	if (!len)
		return true;
	path_of(in, FIRST, script, 512);
	FILE *f = fm_reach_write(&in->reach, FIRST);
	if (!f)
		return false;
	fputs(lines, f);
	return fclose(f) == 0;
}

static bool is_sandboxed(struct fm_injected *in)
{
	in->filter.is_sandboxed |= in->exec && fm_remote_exec_is_sandboxed(in->exec);
	return fm_sandbox_watch_look(&in->filter, in->pid);
}

static enum fm_err refuse_sandboxed(const struct fm_injected *in, struct fm_diag *diag)
{
	return fm_diag_set(diag, FM_E_REFUSED,
			   "process %u has a system call filter (seccomp) that could kill it for a call of the "
			   "agent's; to observe it from outside, leave out --memory, --trace and --inject",
			   in->pid);
}

// Lets the program call a method of the agent's, and waits for that. Not FM_OK: it did not, by then,
// and will not.
static enum fm_err call(struct fm_injected *in, const char *method, const char *argument, uint64_t most_ns,
			struct fm_diag *diag)
{
	char script[512], answer[200];
	if (is_sandboxed(in))
		return refuse_sandboxed(in, diag);
	path_of(in, method, script, sizeof(script));
	snprintf(in->answer, sizeof(in->answer), "answer%u",
		 in->n_calls++ % MAX_CALLS); // one that is late is not the next one's
	if (!write_script(in, method, argument) || !write_first(in, script))
		return fm_diag_set(diag, FM_E_IO, "cannot write %s: %m", script);
	uint64_t since_ns = fm_now_ns(), asked_ns = 0;
	bool has_said = false, has_answer = false, is_withdrawn = false, has_begun = false;
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
		if (in->running)
			fm_capture_keep_up(in->running);
		has_answer = fm_reach_take(&in->reach, in->answer, answer, sizeof(answer));
		bool is_late = now_ns - since_ns > most_ns || (argument && is_interrupted);
		// Its system calls are no longer what the program wants.
		is_late |= is_sandboxed(in);
		// Who has begun with it is waited for.
		has_begun = is_late && !fm_remote_exec_withdraw(in->exec);
		is_withdrawn = fm_process_is_over(-1, in->pid) || (is_late && !has_begun) ||
			       now_ns - since_ns > most_ns + JOIN_NS;
	}
	fm_reach_remove(&in->reach, method);
	fm_reach_remove(&in->reach, FIRST);
	fm_remote_exec_done(in->exec, has_answer);
	size_t len = has_answer ? strlen(answer) : 0, again_len = strlen(SIGNAL_AGAIN);
	if (len > again_len && strcmp(answer + len - again_len, SIGNAL_AGAIN) == 0) {
		answer[len - again_len] = 0;
		nanosleep(&(struct timespec){ .tv_nsec = SIGNAL_AGAIN_NS }, NULL); // and should not meet us again
	}
	// Another's capture is not ours to end, nor one that has not begun.
	in->has_answered |=
		has_answer && !strstr(answer, "is being profiled already") && strcmp(answer, SIGNAL_FIRST) != 0;
	if (!has_answer && !has_begun && is_sandboxed(in))
		return refuse_sandboxed(in, diag);
	if (!has_answer)
		return fm_diag_set(
			diag, FM_E_NOT_FOUND,
			fm_remote_exec_is_stuck(in->exec) ? "process %u could not be stopped for %.0f s: a thread is "
							    "in a system call that cannot be interrupted"
			: fm_remote_exec_is_without_files(in->exec)
				? "process %u had no file descriptors left to load the agent with for %.0f s; raise "
				  "its 'ulimit -n'"
			: fm_remote_exec_is_cramped(in->exec)
				? "process %u had no room for Python code of ours for %.0f s: a thread has a small "
				  "stack or is close to its recursion limit"
			: has_begun ? "process %u did not answer for %.0f s after it was asked to load the agent"
				    : "process %u ran no Python code for %.0f s",
			in->pid, (double)(fm_now_ns() - since_ns) * 1e-9);
	if (strcmp(answer, "done") != 0)
		return fm_diag_set(diag, FM_E_REFUSED, "process %u: %s", in->pid, answer);
	return FM_OK;
}

// ---- the capture ----

static void join(const char *ring_path, struct capture *running, void *arg)
{
	struct fm_injected *in = arg;
	in->running = running;
	struct sigaction act = { .sa_handler = on_signal };
	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	sigaction(SIGHUP, &act, NULL);
	char path[64];
	in->has_failed = !fm_reach_ring(&in->reach, ring_path, path, sizeof(path));
	if (in->has_failed)
		(void)fm_diag_set(&in->failure, FM_E_REFUSED,
				  "cannot start a process as the user of process %u, to hold shared memory open",
				  in->pid);
	else
		in->has_failed = call(in, "start", path, JOIN_NS, &in->failure) != FM_OK;
	if (!in->has_failed)
		fm_say("the agent is in process %u; press Ctrl-C to remove its hooks", in->pid);
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

static void tell_way(struct fm_writer *w, void *arg)
{
	const struct fm_injected *in = arg;
	fm_name_frames(w, NULL);
	fm_writer_meta(w, "injected",
		       fm_remote_exec_is_by_pending_call(in->exec) ? FM_STR_LIT("pending call")
								   : FM_STR_LIT("remote_exec"));
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

enum fm_err fm_injected_begin(struct fm_injected *in, uint32_t pid, bool is_traced, struct fm_capture_options *capture,
			      struct fm_diag *diag)
{
	*in = (struct fm_injected){ .pid = pid,
				    .is_traced = is_traced,
				    .duration_ns = (uint64_t)(capture->duration_s * 1e9) };
	if (!fm_process_state(pid, 0))
		return fm_diag_set(diag, FM_E_NOT_FOUND, "there is no process %u", pid);
	if (is_sandboxed(in)) // before anything is made that it could see
		return refuse_sandboxed(in, diag);
	char agent[4096];
	enum fm_err err = fm_agent_path_find(agent, sizeof(agent), diag);
	if (!err)
		err = fm_reach_open(&in->reach, pid, agent, diag);
	if (err)
		return err;
	if ((err = fm_remote_exec_open(pid, &in->exec, diag))) {
		fm_reach_close(&in->reach);
		return err;
	}
	read_command(in);
	capture->argv = in->argv;
	capture->beside_pid = pid;
	capture->on_ready = join;
	capture->on_poll = poll_end;
	capture->at_end = tell_way;
	capture->on_ready_arg = capture->on_poll_arg = capture->at_end_arg = in;
	return FM_OK;
}

enum fm_err fm_injected_end(struct fm_injected *in, struct fm_diag *diag)
{
	struct fm_diag unheard;
	in->running = NULL;
	if (in->has_failed)
		*diag = in->failure;
	if (in->has_failed && in->has_answered) // it may have begun all the same
		(void)call(in, "stop", NULL, STOP_NS, &unheard);
	bool is_left = in->has_answered && !fm_process_is_over(-1, in->pid);
	if (is_left && call(in, "leave", NULL, LEAVE_NS, &unheard) == FM_OK)
		fm_say("the agent's hooks are removed from process %u; its library stays mapped there and does nothing",
		       in->pid);
	else if (is_left && !fm_process_is_over(-1, in->pid))
		fm_say(is_sandboxed(in) ? "process %u has installed a system call filter (seccomp), so Fathom leaves "
					  "it alone; the agent's hooks stay there and do nothing"
					: "process %u ran no Python code that could remove the agent's hooks; they "
					  "stay there and do nothing",
		       in->pid);
	fm_remote_exec_close(in->exec);
	for (uint32_t i = 0; i < in->n_calls && i < MAX_CALLS; i++) {
		char name[32];
		snprintf(name, sizeof(name), "answer%u", i);
		fm_reach_remove(&in->reach, name);
		snprintf(name, sizeof(name), "answer%u.part", i);
		fm_reach_remove(&in->reach, name);
	}
	fm_reach_close(&in->reach);
	return in->has_failed ? FM_E_REFUSED : FM_OK;
}
