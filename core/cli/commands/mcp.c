// SPDX-License-Identifier: Apache-2.0
// fathom mcp: Fathom's commands as tools of a coding agent.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/commands/commands.h"
#include "cli/mcp/mcp.h"
#include "cli/options/options.h"

#define POLL_MS 50      // while calls are under way
#define END_GRACE_S 2.0 // when the client has gone, for calls that are about to answer

static void receive(void *ctx, const struct fm_str *line)
{
	fm_mcp_receive(ctx, line);
}

// True while a call is under way.
static bool serve_calls(struct fm_mcp_server *s)
{
	bool is_any = false;
	fm_mcp_calls_tick(&s->calls, fm_now_ns());
	for (struct fm_mcp_call *call = s->calls.all; call < s->calls.all + FM_MCP_MAX_CALLS; call++) {
		int status;
		if (!call->pid)
			continue;
		if (fm_mcp_call_read(call, &status)) {
			is_any = true;
			continue;
		}
		fm_mcp_answer_call(s, call, status);
		fm_mcp_call_deinit(call);
	}
	return is_any;
}

static void wait_for_any(const struct fm_mcp_server *s, bool has_client, bool has_calls)
{
	struct pollfd fds[1 + FM_MCP_MAX_CALLS] = { { has_client ? STDIN_FILENO : -1, POLLIN, 0 } };
	for (int i = 0; i < FM_MCP_MAX_CALLS; i++)
		fds[1 + i] = (struct pollfd){ s->calls.all[i].pid ? s->calls.all[i].from : -1, POLLIN, 0 };
	poll(fds, FM_ARRAY_LEN(fds), has_calls ? POLL_MS : -1);
}

// False: the client has gone.
static bool serve_client(struct fm_mcp_server *s, struct fm_mcp_lines *lines)
{
	static char bytes[65536];
	struct pollfd fd = { STDIN_FILENO, POLLIN, 0 };
	if (poll(&fd, 1, 0) <= 0)
		return true;
	ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));
	if (n > 0)
		fm_mcp_lines_feed(lines, bytes, (size_t)n, receive, s);
	return n > 0 || (n < 0 && errno == EINTR);
}

int fm_cmd_mcp(int argc, char **argv)
{
	static const struct fm_option options[] = { { 0 } };
	static const struct fm_usage usage = {
		.command = "mcp",
		.operands = "",
		.about = "Serve the Model Context Protocol on standard input and output: run, report, focus, query, "
			 "diff "
			 "and check as tools of a coding agent. It runs what the client asks for, with the rights that "
			 "it was "
			 "started "
			 "with, and nothing else.",
		.options = options,
		.examples = "  fathom mcp\n"
			    "  echo '{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"tools/list\"}' | fathom mcp\n",
	};
	struct fm_operands ops;
	int exit_code;
	if (!fm_options_parse(&usage, argc, argv, &ops, &exit_code))
		return exit_code;
	if (isatty(STDIN_FILENO))
		fm_say("this speaks JSON-RPC to a coding agent, which starts it; 'fathom mcp --help' says more");
	signal(SIGPIPE, SIG_IGN);
	struct fm_mcp_server s = { .out = stdout, .has = fm_command_is_there, .start = fm_mcp_call_start };
	struct fm_mcp_lines lines = { 0 };
	bool has_client = true, has_calls = false;
	uint64_t end_ns = UINT64_MAX;
	while ((has_client || has_calls) && fm_now_ns() < end_ns && !ferror(stdout)) {
		wait_for_any(&s, has_client, has_calls);
		if (has_client && !serve_client(&s, &lines)) {
			has_client = false;
			end_ns = fm_now_ns() + (uint64_t)(END_GRACE_S * 1e9);
		}
		has_calls = serve_calls(&s);
	}
	fm_mcp_calls_end(&s.calls);
	fm_buf_deinit(&lines.line);
	return FM_EXIT_OK;
}
