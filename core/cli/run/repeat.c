// SPDX-License-Identifier: Apache-2.0
#include "cli/run/results.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"

// What a run's process tells the one that waits for it.
struct answer {
	enum fm_err err;
	int exit_code;
	struct fm_diag diag;
};

// In a process of its own: a capture changes signal handlers and limits for good, and the next run
// has to find them as this one did.
static enum fm_err run_apart(const struct fm_capture_options *options, int *ret_exit_code, struct fm_diag *diag)
{
	int tell[2];
	if (pipe(tell) != 0)
		return fm_diag_set(diag, FM_E_REFUSED, "cannot make a pipe: %s", strerror(errno));
	fflush(NULL);
	struct sigaction ignore = { .sa_handler = SIG_IGN }, before;
	sigaction(SIGINT, &ignore, &before); // the target decides what Ctrl-C means
	pid_t pid = fork();
	if (pid == 0) {
		close(tell[0]);
		sigaction(SIGINT, &before, NULL);
		struct answer a = { 0 };
		a.err = fm_capture_run(options, &a.exit_code, &a.diag);
		fflush(NULL);
		_exit(write(tell[1], &a, sizeof(a)) == sizeof(a) ? 0 : 1);
	}
	close(tell[1]);
	struct answer a = { .err = FM_E_REFUSED, .exit_code = 1 };
	bool has_answer = pid > 0 && read(tell[0], &a, sizeof(a)) == sizeof(a);
	close(tell[0]);
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		continue;
	sigaction(SIGINT, &before, NULL);
	*ret_exit_code = a.exit_code;
	if (!has_answer)
		return fm_diag_set(diag, FM_E_REFUSED, "the capture ended before its time: %s",
				   pid < 0 ? strerror(errno) : "it was killed");
	if (a.err)
		*diag = a.diag;
	return a.err;
}

enum fm_err fm_repeat_run(const struct fm_capture_options *options, unsigned n_runs, const char *dir,
			  int *ret_exit_code, struct fm_diag *diag)
{
	if (n_runs <= 1)
		return fm_capture_run(options, ret_exit_code, diag);
	struct fm_capture_options one = *options;
	for (unsigned i = 1; i <= n_runs; i++) {
		char path[4200];
		snprintf(path, sizeof(path), "%s/profile_%u.fathom", dir, i);
		one.output_path = path;
		if (isatty(STDERR_FILENO))
			fm_say("run %u of %u", i, n_runs);
		enum fm_err err = run_apart(&one, ret_exit_code, diag);
		if (err)
			return err;
		if (*ret_exit_code && i < n_runs) {
			fm_say("run %u of %u did not end well (exit code %d), so the rest were left out", i, n_runs,
			       *ret_exit_code);
			break;
		}
	}
	return FM_OK;
}
