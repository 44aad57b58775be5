// SPDX-License-Identifier: Apache-2.0
#include "collect/capture/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "wire/wire.h"

// LD_PRELOAD is split at blanks and colons, with no way to quote: give such a path another name.
static const char *preloadable_path(struct fm_launch *launch, const char *agent_path, char *link, size_t cap)
{
	if (!strpbrk(agent_path, " :\t\n"))
		return agent_path;
	snprintf(launch->link_dir, sizeof(launch->link_dir), "/tmp/fathom-XXXXXX");
	if (!mkdtemp(launch->link_dir)) {
		launch->link_dir[0] = 0;
		return NULL;
	}
	snprintf(link, cap, "%s/agent.so", launch->link_dir);
	return symlink(agent_path, link) == 0 ? link : NULL;
}

enum fm_err fm_launch_start(struct fm_launch *launch, char **argv, char **env, const char *agent_path,
			    const char *ring_path, int *ret_exit_code, struct fm_diag *diag)
{
	*launch = (struct fm_launch){ .pid = -1 };
	*ret_exit_code = 1;
	char link[96];
	const char *preload = preloadable_path(launch, agent_path, link, sizeof(link));
	if (!preload)
		return fm_diag_set(diag, FM_E_IO, "cannot link to the agent from /tmp: %s", strerror(errno));
	struct fm_buf preload_list = { 0 };
	const char *have = getenv("LD_PRELOAD");
	// Last: a sanitizer's runtime that the user preloads insists on being the first. start.c
	// takes the last one off again.
	fm_buf_printf(&preload_list, "%s%s%s", have ? have : "", have && *have ? ":" : "", preload);

	int report[2]; // closed by a successful exec, else carries errno
	if (pipe2(report, O_CLOEXEC) != 0) {
		fm_buf_deinit(&preload_list);
		return fm_diag_set(diag, FM_E_REFUSED, "cannot make a pipe: %s", strerror(errno));
	}
	fflush(NULL);
	launch->pid = fork();
	if (launch->pid == 0) {
		setenv("LD_PRELOAD", (const char *)preload_list.data, 1);
		setenv(FM_WIRE_ENV, ring_path, 1);
		for (; env && *env; env++)
			putenv(*env);
		execvp(argv[0], argv);
		int err = errno;
		ssize_t ignored = write(report[1], &err, sizeof(err));
		(void)ignored;
		_exit(127);
	}
	int fork_errno = errno;
	fm_buf_deinit(&preload_list);
	close(report[1]);
	_cleanup_close_ int from_child = report[0];
	if (launch->pid < 0)
		return fm_diag_set(diag, FM_E_REFUSED, "cannot start a process: %s", strerror(fork_errno));
	int err = 0;
	if (read(from_child, &err, sizeof(err)) == sizeof(err)) {
		*ret_exit_code = err == ENOENT ? 127 : 126;
		return fm_diag_set(diag, FM_E_NOT_FOUND, "cannot run %s: %s; %s", argv[0], strerror(err),
				   err == ENOENT   ? "give a program on PATH, or the path of one"
				   : err == EACCES ? "give an executable file, or the interpreter that runs it"
						   : "try it without fathom");
	}
	return FM_OK;
}

void fm_launch_deinit(struct fm_launch *launch)
{
	if (launch->link_dir[0]) {
		char link[96];
		snprintf(link, sizeof(link), "%s/agent.so", launch->link_dir);
		unlink(link);
		rmdir(launch->link_dir);
	}
}
