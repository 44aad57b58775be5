// SPDX-License-Identifier: Apache-2.0
#include "cli/mcp/mcp.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/utf8.h"

// In a session of its own, so that all that it starts can be ended with it. Its input is empty:
// ours is the client's.
static void become(const struct fm_mcp_words *words, int output, pid_t server)
{
	int empty = open("/dev/null", O_RDONLY);
	setsid();
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	signal(SIGPIPE, SIG_DFL);
	if (getppid() == server && empty >= 0 && dup2(empty, STDIN_FILENO) >= 0 && dup2(output, STDOUT_FILENO) >= 0 &&
	    dup2(output, STDERR_FILENO) >= 0)
		execv("/proc/self/exe", (char **)words->argv.items);
	_exit(127);
}

enum fm_err fm_mcp_call_start(struct fm_mcp_calls *calls, const struct fm_buf *id, const struct fm_mcp_words *words,
			      struct fm_diag *diag)
{
	struct fm_mcp_call *call = calls->all;
	while (call < calls->all + FM_MCP_MAX_CALLS && call->pid)
		call++;
	if (call == calls->all + FM_MCP_MAX_CALLS)
		return fm_diag_set(diag, FM_E_REFUSED, "%d calls are already running; wait for one of them",
				   FM_MCP_MAX_CALLS);
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) != 0)
		return fm_diag_set(diag, FM_E_REFUSED, "cannot make a pipe: %s", strerror(errno));
	fflush(NULL);
	pid_t server = getpid(), pid = fork();
	if (pid == 0)
		become(words, ends[1], server);
	close(ends[1]);
	if (pid < 0) {
		close(ends[0]);
		return fm_diag_set(diag, FM_E_REFUSED, "cannot make a process: %s", strerror(errno));
	}
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	*call = (struct fm_mcp_call){ .pid = pid, .from = ends[0], .limit_s = words->limit_s };
	// `run` asks its program to end by itself, and then has a report to make.
	call->end_ns = fm_now_ns() + (uint64_t)((words->limit_s + FM_MCP_GRACE_S) * 1e9);
	fm_buf_bytes(&call->id, id->data, id->len);
	return FM_OK;
}

static void ask(struct fm_mcp_call *call, uint64_t now_ns)
{
	if (call->is_asked)
		return;
	kill(call->pid, SIGTERM); // which `run` hands on
	call->is_asked = true;
	call->kill_ns = now_ns + (uint64_t)(FM_MCP_GRACE_S * 1e9);
}

void fm_mcp_call_cancel(struct fm_mcp_calls *calls, const struct fm_buf *id)
{
	for (struct fm_mcp_call *call = calls->all; call < calls->all + FM_MCP_MAX_CALLS; call++) {
		if (!call->pid || call->id.len != id->len || memcmp(call->id.data, id->data, id->len) != 0)
			continue;
		call->is_cancelled = true;
		ask(call, fm_now_ns());
	}
}

// The first bytes stay, and the last ones, of which there are at least as many as are shown.
static void keep(struct fm_mcp_call *call, const char *bytes, size_t n)
{
	call->n_bytes += n;
	size_t to_head = FM_MIN(n, FM_MCP_HEAD_BYTES - call->head.len);
	fm_buf_bytes(&call->head, bytes, to_head);
	fm_buf_bytes(&call->tail, bytes + to_head, n - to_head);
	if (call->tail.len > 2 * FM_MCP_TAIL_BYTES) {
		memmove(call->tail.data, call->tail.data + call->tail.len - FM_MCP_TAIL_BYTES, FM_MCP_TAIL_BYTES);
		call->tail.len = FM_MCP_TAIL_BYTES;
	}
}

// Whether it has ended. What it began ends with one that was asked to: as long as nobody has waited
// for it, its number is nobody else's.
static bool wait_for(const struct fm_mcp_call *call, int options, int *ret_status)
{
	siginfo_t info = { .si_pid = 0 };
	while (waitid(P_PID, (id_t)call->pid, &info, WEXITED | WNOWAIT | options) != 0)
		if (errno != EINTR)
			return false;
	if (!info.si_pid)
		return false;
	if (call->is_asked)
		kill(-call->pid, SIGKILL);
	return waitpid(call->pid, ret_status, 0) == call->pid;
}

bool fm_mcp_call_read(struct fm_mcp_call *call, int *ret_status)
{
	char bytes[16384];
	ssize_t n = 0;
	// One that has ended may have left others behind that keep its output open.
	bool has_ended = wait_for(call, WNOHANG, ret_status);
	for (int i = 0; i < 64 && (n = read(call->from, bytes, sizeof(bytes))) > 0; i++)
		keep(call, bytes, (size_t)n);
	if (has_ended)
		return false;
	if (n != 0)
		return true;
	wait_for(call, 0, ret_status);
	return false;
}

void fm_mcp_calls_tick(struct fm_mcp_calls *calls, uint64_t now_ns)
{
	for (struct fm_mcp_call *call = calls->all; call < calls->all + FM_MCP_MAX_CALLS; call++) {
		if (!call->pid)
			continue;
		if (now_ns >= call->end_ns) {
			call->is_late |= !call->is_asked;
			ask(call, now_ns);
		}
		if (call->is_asked && now_ns >= call->kill_ns)
			kill(-call->pid, SIGKILL);
	}
}

void fm_mcp_calls_end(struct fm_mcp_calls *calls)
{
	for (struct fm_mcp_call *call = calls->all; call < calls->all + FM_MCP_MAX_CALLS; call++) {
		if (!call->pid)
			continue;
		kill(-call->pid, SIGKILL);
		waitpid(call->pid, NULL, 0);
		fm_mcp_call_deinit(call);
	}
}

void fm_mcp_call_deinit(struct fm_mcp_call *call)
{
	close(call->from);
	fm_buf_deinit(&call->id);
	fm_buf_deinit(&call->head);
	fm_buf_deinit(&call->tail);
	*call = (struct fm_mcp_call){ 0 };
}

// Any bytes as lines of text.
static void put_text(struct fm_buf *ret, const char *p, size_t len)
{
	for (const char *end = p + len; p < end;) {
		const char *newline = memchr(p, '\n', (size_t)(end - p));
		fm_utf8_clean(ret, (struct fm_str){ p, (uint32_t)((newline ? newline : end) - p) });
		if (newline)
			fm_buf_u8(ret, '\n');
		p = newline ? newline + 1 : end;
	}
}

void fm_mcp_call_text(const struct fm_mcp_call *call, int status, struct fm_buf *ret)
{
	size_t shown = FM_MIN(call->tail.len, (size_t)FM_MCP_TAIL_BYTES);
	const char *tail = call->tail.len ? (const char *)call->tail.data + call->tail.len - shown : "";
	if (call->head.len)
		put_text(ret, (const char *)call->head.data, call->head.len);
	if (call->n_bytes > call->head.len + shown)
		fm_buf_printf(ret, "\n[%llu bytes were cut out here]\n",
			      (unsigned long long)(call->n_bytes - call->head.len - shown));
	put_text(ret, tail, shown);
	if (call->is_late)
		fm_buf_printf(ret, "\n[it took longer than %.0f s, and was ended]\n", call->limit_s);
	else if (WIFSIGNALED(status))
		fm_buf_printf(ret, "\n[it was ended by signal %d]\n", WTERMSIG(status));
	else if (WEXITSTATUS(status))
		fm_buf_printf(ret, "\n[exit code %d]\n", WEXITSTATUS(status));
}
