// SPDX-License-Identifier: Apache-2.0
#include "symbolize/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "image/debug_file.h"

// Never returns.
static void be_child(fm_child_fn work, const void *ctx, int out)
{
	// A crash here is expected of damaged files: no core dump, no word on the terminal, and not
	// longer than the parent.
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
	int null = open("/dev/null", O_WRONLY);
	dup2(null, STDERR_FILENO); // libdw asserts
	struct fm_buf packed = { 0 };
	work(ctx, &packed);
	for (size_t at = 0; at < packed.len;) {
		ssize_t n_written = write(out, packed.data + at, packed.len - at);
		if (n_written < 0 && errno != EINTR)
			_exit(1);
		at += n_written > 0 ? (size_t)n_written : 0;
	}
	_exit(0);
}

static bool read_all(int fd, uint64_t deadline_ns, struct fm_buf *ret)
{
	for (;;) {
		uint64_t now_ns = fm_now_ns();
		struct pollfd p = { .fd = fd, .events = POLLIN };
		int ready = now_ns < deadline_ns ? poll(&p, 1, (int)((deadline_ns - now_ns) / 1000000 + 1)) : 0;
		if (ready < 0 && errno == EINTR)
			continue;
		if (ready <= 0)
			return false;
		fm_buf_reserve(ret, 1 << 16);
		ssize_t n = read(fd, ret->data + ret->len, 1 << 16);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return true;
		ret->len += (size_t)n;
	}
}

bool fm_child_run(fm_child_fn work, const void *ctx, uint64_t deadline_ns, struct fm_buf *ret)
{
	int ends[2];
	if (fm_debuginfod_is_wanted())
		fm_debuginfod_start_clock();
	if (pipe2(ends, O_CLOEXEC)) {
		work(ctx, ret);
		return true;
	}
	pid_t pid = fork();
	if (pid == 0)
		be_child(work, ctx, ends[1]);
	close(ends[1]);
	if (pid < 0) {
		close(ends[0]);
		work(ctx, ret);
		return true;
	}
	bool is_in_time = read_all(ends[0], deadline_ns, ret);
	close(ends[0]);
	if (!is_in_time)
		kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return is_in_time;
}
