// SPDX-License-Identifier: Apache-2.0
#include "cli/live/live.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/kernel.h"
#include "base/log.h"

enum fm_err fm_listener_check(const struct fm_capture_flags *flags, struct fm_diag *diag)
{
	struct fm_listen_place place;
	if (flags->token && !fm_guard_token_is_fit(flags->token))
		return fm_diag_set(
			diag, FM_E_USAGE,
			"--token wants %d to %d letters, digits, '-' or '_'; without it, Fathom makes a random one",
			FM_TOKEN_LEAST, FM_TOKEN_CHARS);
	return flags->listen ? fm_listen_parse(flags->listen, &place, diag) : FM_OK;
}

// What the shell or whoever started us left open is not the server's to hold: a lock, the end of a
// pipe.
static void keep_only(int a, int b)
{
	int first = FM_MIN(a, b), second = FM_MAX(a, b);
	if (first > 3)
		fm_close_range(3, (unsigned)first - 1);
	if (second > first + 1)
		fm_close_range((unsigned)first + 1, (unsigned)second - 1);
	fm_close_range((unsigned)second + 1, UINT_MAX);
	fcntl(a, F_SETFD, 0);
	fcntl(b, F_SETFD, 0);
}

// The server is nobody's child and nobody's terminal is its own: a program that waits for its
// children, or a shell that sends Ctrl-C to all, does not meet it. It hears of our end by a pipe.
static void start_server(const char *path, void *arg)
{
	struct fm_listener *l = arg;
	int ends[2];
	if (pipe2(ends, O_CLOEXEC)) {
		fm_say("nobody can watch: %s", strerror(errno));
		return;
	}
	char place[sizeof(l->place.host) + 16], socket[16], collector[16];
	snprintf(place, sizeof(place), strchr(l->place.host, ':') ? "[%s]:%u" : "%s:%u", l->place.host, l->place.port);
	snprintf(socket, sizeof(socket), "%d", l->socket);
	snprintf(collector, sizeof(collector), "%d", ends[0]);
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		if (fork() != 0)
			_exit(0);
		setsid();
		// Whoever reads our output must not wait for the server's end.
		int null = open("/dev/null", O_RDWR);
		for (int fd = 0; null >= 0 && fd <= 2; fd++)
			dup2(null, fd);
		keep_only(l->socket, ends[0]);
		signal(SIGPIPE, SIG_IGN);
		setenv("FATHOM_LIVE_TOKEN", l->token, 1); // not an argument: those are for everybody to see
		execl("/proc/self/exe", "fathom", "serve-live", "--socket", socket, "--collector", collector, place,
		      path, (char *)NULL);
		_exit(127);
	}
	if (pid < 0)
		fm_say("nobody can watch: %s", strerror(errno));
	else
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
	close(ends[0]); // the other end stays open until we end
	close(l->socket);
}

void fm_listener_open(struct fm_listener *l, const struct fm_capture_flags *flags, struct fm_capture_options *capture)
{
	struct fm_diag diag;
	*l = (struct fm_listener){ .socket = -1 };
	if (!flags->listen)
		return;
	if (fm_listen_parse(flags->listen, &l->place, &diag) || fm_listen_bind(&l->place, &l->socket, &diag)) {
		fm_say("%s; the program runs, but nobody can watch", diag.text);
		return;
	}
	if (flags->token)
		snprintf(l->token, sizeof(l->token), "%s", flags->token);
	else if (!fm_guard_make_token(l->token))
		l->token[0] = 0; // then nobody but this user, on this machine
	char name[sizeof(l->place.host)];
	fm_listen_name(&l->place, name, sizeof(name));
	const char *format = strchr(name, ':') ? "[%s]:%u" : "%s:%u";
	char at[sizeof(name) + 16];
	snprintf(at, sizeof(at), format, name, l->place.port);
	if (l->place.is_loopback)
		fm_say("watch with 'fathom live %u', or at http://%s/#token=%s&view=live", l->place.port, at, l->token);
	else
		fm_say("watch with 'fathom live --token %s %s', or at http://%s/#token=%s&view=live", l->token, at, at,
		       l->token);
	capture->on_open = start_server;
	capture->on_open_arg = l;
}
