// SPDX-License-Identifier: Apache-2.0
#include "cli/run/apart.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"

static const int held[] = { SIGINT, SIGTERM, SIGHUP };
static struct sigaction before_held[FM_ARRAY_LEN(held)];
static bool is_holding;
static volatile sig_atomic_t noted, running_pid;

// The terminal sends Ctrl-C to the target, too; what one process sends to us alone has to be passed
// on. The collector ignores SIGINT, which is the target's.
static void note(int sig, siginfo_t *info, void *unused)
{
	(void)unused;
	if (!noted)
		noted = sig;
	if (running_pid > 0 && (sig != SIGINT || info->si_code == SI_USER))
		kill((pid_t)running_pid, SIGTERM);
}

void fm_apart_hold_signals(void)
{
	struct sigaction act = { .sa_sigaction = note, .sa_flags = SA_SIGINFO | SA_RESTART };
	for (size_t i = 0; i < FM_ARRAY_LEN(held); i++)
		sigaction(held[i], &act, &before_held[i]);
	is_holding = true;
}

int fm_apart_signal(void)
{
	return noted;
}

// What a run's process tells the one that waits for it.
struct answer {
	enum fm_err err;
	int exit_code;
	struct fm_diag diag;
};

static _Noreturn void run(const struct fm_apart *apart, const struct sigaction *int_before, int tell)
{
	struct answer a = { 0 };
	sigaction(SIGINT, int_before, NULL);
	for (size_t i = 0; is_holding && i < FM_ARRAY_LEN(held); i++)
		sigaction(held[i], &before_held[i], NULL);
	a.err = apart->before ? apart->before(apart->arg, &a.diag) : FM_OK;
	if (!a.err)
		a.err = fm_capture_run(apart->options, &a.exit_code, &a.diag);
	fflush(NULL);
	_exit(write(tell, &a, sizeof(a)) == sizeof(a) ? 0 : 1);
}

enum fm_err fm_apart_run(const struct fm_apart *apart, int *ret_exit_code, struct fm_diag *diag)
{
	int tell[2];
	if (pipe2(tell, O_CLOEXEC) != 0) // the target is not to have an end of it
		return fm_diag_set(diag, FM_E_REFUSED, "cannot make a pipe: %s", strerror(errno));
	fflush(NULL);
	struct sigaction ignore = { .sa_handler = SIG_IGN }, before;
	sigaction(SIGINT, is_holding ? NULL : &ignore, &before); // the target decides what Ctrl-C means
	pid_t pid = fork();
	if (pid == 0) {
		close(tell[0]);
		run(apart, &before, tell[1]);
	}
	running_pid = pid;
	close(tell[1]);
	struct answer a = { .err = FM_E_REFUSED, .exit_code = 1 };
	bool has_answer = pid > 0 && read(tell[0], &a, sizeof(a)) == sizeof(a);
	close(tell[0]);
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		continue;
	running_pid = 0;
	sigaction(SIGINT, &before, NULL);
	*ret_exit_code = a.exit_code;
	if (!has_answer)
		return fm_diag_set(diag, FM_E_REFUSED, "the capture ended early: %s",
				   pid < 0 ? strerror(errno) : "it was killed");
	if (a.err)
		*diag = a.diag;
	return a.err;
}
