// SPDX-License-Identifier: Apache-2.0
// The Model Context Protocol over stdin and stdout: JSON-RPC 2.0, a message a line. A coding agent
// starts `fathom mcp` and asks it to profile, to report and to compare; each tool is one of our own
// commands in a process of its own, so a damaged capture or a program that hangs ends that call alone.
#pragma once

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"

#define FM_MCP_MAX_LINE (256u << 10)  // of a message; the tree that it is read into takes fifty times that
#define FM_MCP_MAX_CALLS 4            // at one time
#define FM_MCP_HEAD_BYTES (4u << 10)  // of what a call prints: its beginning,
#define FM_MCP_TAIL_BYTES (12u << 10) // and its end, where reports stand
#define FM_MCP_RUN_S 60.0             // a program runs as long unless the client says
#define FM_MCP_MAX_RUN_S 3600.0
#define FM_MCP_MAX_REPEAT 1000.0 // as fathom run has it; each one has the time limit to itself
#define FM_MCP_READ_S 120.0      // what only reads captures
#define FM_MCP_GRACE_S 10.0      // from the wish that a program end to its being killed

// ---- lines.c: messages out of bytes ----

struct fm_mcp_lines {
	struct fm_buf line;
	bool is_too_long; // the rest of this line is thrown away
};
// Tells of each whole line; a line that is too long is told of as NULL, once.
void fm_mcp_lines_feed(struct fm_mcp_lines *l, const char *bytes, size_t n,
		       void (*each)(void *ctx, const struct fm_str *line), void *ctx);

// ---- tools.c: what may be called ----

struct fm_mcp_tool;
struct fm_mcp_words {
	FM_VEC(const char *) argv; // in the arena; NULL at its end
	double limit_s;
};
// "tools": [...], for tools/list. has: which commands this build has.
void fm_mcp_tools_write(struct fm_json *j, bool (*has)(const char *command));
// NULL: there is none.
const struct fm_mcp_tool *fm_mcp_tool_find(struct fm_str name, bool (*has)(const char *command));
// The command line of a call. FM_E_USAGE: an argument is missing, unknown or of another type.
FM_MUST_CHECK enum fm_err fm_mcp_tool_words(const struct fm_mcp_tool *tool, const struct fm_json_value *arguments,
					    struct fm_arena *arena, struct fm_mcp_words *ret, struct fm_diag *diag);

// ---- calls.c: those that are under way ----

struct fm_mcp_call {
	pid_t pid;        // 0 = this place is free
	int from;         // what it prints
	struct fm_buf id; // as JSON
	struct fm_buf head, tail;
	uint64_t n_bytes; // printed in all
	double limit_s;
	uint64_t end_ns, kill_ns; // when it is asked to end, when it is made to
	bool is_asked, is_late, is_cancelled;
};
struct fm_mcp_calls {
	struct fm_mcp_call all[FM_MCP_MAX_CALLS];
};
// FM_E_REFUSED: too many at a time, or no process can be made.
FM_MUST_CHECK enum fm_err fm_mcp_call_start(struct fm_mcp_calls *calls, const struct fm_buf *id,
					    const struct fm_mcp_words *words, struct fm_diag *diag);
void fm_mcp_call_cancel(struct fm_mcp_calls *calls, const struct fm_buf *id);
// Takes what the call has printed. False: it has ended, and wait() status is in ret_status.
bool fm_mcp_call_read(struct fm_mcp_call *call, int *ret_status);
// Asks those to end whose time is over, and kills those that were asked.
void fm_mcp_calls_tick(struct fm_mcp_calls *calls, uint64_t now_ns);
void fm_mcp_calls_end(struct fm_mcp_calls *calls); // all of them, now
void fm_mcp_call_deinit(struct fm_mcp_call *call);
// Its output as text: UTF-8, and with a line for what was cut out of the middle.
void fm_mcp_call_text(const struct fm_mcp_call *call, int status, struct fm_buf *ret);

// ---- rpc.c: what a message asks for, and the answers ----

struct fm_mcp_server {
	FILE *out;
	struct fm_mcp_calls calls;
	bool (*has)(const char *command);
	// fm_mcp_call_start, or what a test puts in its place.
	enum fm_err (*start)(struct fm_mcp_calls *calls, const struct fm_buf *id, const struct fm_mcp_words *words,
			     struct fm_diag *diag);
};
// NULL: a line that was too long. Answers go to out.
void fm_mcp_receive(struct fm_mcp_server *s, const struct fm_str *line);
// The answer to a call that has ended.
void fm_mcp_answer_call(struct fm_mcp_server *s, const struct fm_mcp_call *call, int status);
