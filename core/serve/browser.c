// SPDX-License-Identifier: Apache-2.0
#include "serve/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static bool is_set(const char *name)
{
	const char *value = getenv(name);
	return value && *value;
}

bool fm_open_in_browser(const char *address)
{
	if (!is_set("DISPLAY") && !is_set("WAYLAND_DISPLAY"))
		return false;
	pid_t pid = fork();
	if (pid == 0) {
		sigset_t none;
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		if (fork() != 0) // what starts the browser is nobody's child: no zombie, and Ctrl-C is not for it
			_exit(0);
		setsid();
		int null = open("/dev/null", O_RDWR);
		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
		execlp("xdg-open", "xdg-open", address, (char *)NULL);
		_exit(127);
	}
	if (pid > 0)
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
	return pid > 0;
}
