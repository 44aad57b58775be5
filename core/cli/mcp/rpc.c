// SPDX-License-Identifier: Apache-2.0
#include "cli/mcp/mcp.h"

#include <math.h>
#include <string.h>
#include <sys/wait.h>

#include "base/cleanup.h"

// JSON-RPC 2.0, section 5.1; the last one is of the Model Context Protocol.
enum {
	NOT_JSON = -32700,
	NO_REQUEST = -32600,
	NO_METHOD = -32601,
	WRONG_PARAMS = -32602,
	BUSY = -32000,
	WRONG_VERSION = -32022
};

// Newest first. Of those that are agreed upon by a handshake, 2025-03-26 lets clients send several
// requests at once, which the others do not have. The one without says itself in every request.
static const char *const versions[] = { "2025-11-25", "2025-06-18", "2024-11-05" };
static const char stateless[] = "2026-07-28";
#define VERSION_KEY "io.modelcontextprotocol/protocolVersion"

static const char instructions[] =
	"Fathom profiles Python programs. The loop: run the program (run), read the verdict and the lines in its "
	"answer, "
	"look at one function (focus), change the code, run again, and compare both captures (diff, check). Times are "
	"sampled; each has its 95% interval.";

// An answer begins here, and the caller ends its object. id: as JSON.
static void begin(struct fm_json *j, FILE *out, const char *id)
{
	fm_json_init(j, out);
	fm_json_object(j, NULL);
	fm_json_str(j, "jsonrpc", FM_STR_LIT("2.0"));
	fprintf(out, ",\"id\":%s", id);
}

static void end(struct fm_json *j)
{
	fm_json_end(j);
	fm_json_newline(j);
	fflush(j->out);
}

static void answer_error(struct fm_mcp_server *s, const char *id, int code, const char *text)
{
	struct fm_json j;
	begin(&j, s->out, id);
	fm_json_object(&j, "error");
	fm_json_i64(&j, "code", code);
	fm_json_str(&j, "message", fm_str_of(text));
	fm_json_end(&j);
	end(&j);
}

static void write_versions(struct fm_json *j, const char *key)
{
	fm_json_array(j, key);
	fm_json_str(j, NULL, fm_str_of(stateless));
	for (size_t i = 0; i < FM_ARRAY_LEN(versions); i++)
		fm_json_str(j, NULL, fm_str_of(versions[i]));
	fm_json_end(j);
}

// What the server is.
static void write_server(struct fm_json *j, const char *key)
{
	fm_json_object(j, key);
	fm_json_str(j, "name", FM_STR_LIT("fathom"));
	fm_json_str(j, "version", FM_STR_LIT(FM_VERSION));
	fm_json_end(j);
}

// And what it can do.
static void write_abilities(struct fm_json *j)
{
	fm_json_object(j, "capabilities");
	fm_json_object(j, "tools");
	fm_json_end(j);
	fm_json_end(j);
	fm_json_str(j, "instructions", fm_str_of(instructions));
}

// Members that results of the newest version must have and others may.
static void write_kind(struct fm_json *j, bool is_cacheable)
{
	fm_json_str(j, "resultType", FM_STR_LIT("complete"));
	if (!is_cacheable)
		return;
	fm_json_u64(j, "ttlMs", 0);
	fm_json_str(j, "cacheScope", FM_STR_LIT("private"));
}

static void answer_version(struct fm_mcp_server *s, const char *id, struct fm_str wanted)
{
	struct fm_json j;
	begin(&j, s->out, id);
	fm_json_object(&j, "error");
	fm_json_i64(&j, "code", WRONG_VERSION);
	fm_json_str(&j, "message", FM_STR_LIT("this version of the protocol is not supported"));
	fm_json_object(&j, "data");
	write_versions(&j, "supported");
	fm_json_str(&j, "requested", wanted);
	fm_json_end(&j);
	fm_json_end(&j);
	end(&j);
}

static void discover(struct fm_mcp_server *s, const char *id, const struct fm_json_value *params)
{
	(void)params;
	struct fm_json j;
	begin(&j, s->out, id);
	fm_json_object(&j, "result");
	write_versions(&j, "supportedVersions");
	write_abilities(&j);
	write_kind(&j, true);
	fm_json_object(&j, "_meta");
	write_server(&j, "io.modelcontextprotocol/serverInfo");
	fm_json_end(&j);
	fm_json_end(&j);
	end(&j);
}

static void initialize(struct fm_mcp_server *s, const char *id, const struct fm_json_value *params)
{
	struct fm_str version = fm_str_of(versions[0]), wanted = fm_json_get(params, "protocolVersion")->text;
	for (size_t i = 0; i < FM_ARRAY_LEN(versions); i++)
		if (fm_str_eq(wanted, fm_str_of(versions[i])))
			version = wanted;
	if (!wanted.len) {
		answer_error(s, id, WRONG_PARAMS, "initialize needs 'protocolVersion'");
		return;
	}
	struct fm_json j;
	begin(&j, s->out, id);
	fm_json_object(&j, "result");
	fm_json_str(&j, "protocolVersion", version);
	write_server(&j, "serverInfo");
	write_abilities(&j);
	fm_json_end(&j);
	end(&j);
}

static void ping(struct fm_mcp_server *s, const char *id, const struct fm_json_value *params)
{
	(void)params;
	struct fm_json j;
	begin(&j, s->out, id);
	fm_json_object(&j, "result");
	fm_json_end(&j);
	end(&j);
}

static void list_tools(struct fm_mcp_server *s, const char *id, const struct fm_json_value *params)
{
	(void)params;
	struct fm_json j;
	begin(&j, s->out, id);
	fm_json_object(&j, "result");
	fm_mcp_tools_write(&j, s->has);
	write_kind(&j, true);
	fm_json_end(&j);
	end(&j);
}

static void answer_text(struct fm_mcp_server *s, const char *id, struct fm_str text, bool is_error)
{
	struct fm_json j;
	begin(&j, s->out, id);
	fm_json_object(&j, "result");
	fm_json_array(&j, "content");
	fm_json_object(&j, NULL);
	fm_json_str(&j, "type", FM_STR_LIT("text"));
	fm_json_str(&j, "text", text);
	fm_json_end(&j);
	fm_json_end(&j);
	fm_json_bool(&j, "isError", is_error);
	write_kind(&j, false);
	fm_json_end(&j);
	end(&j);
}

static void call_tool(struct fm_mcp_server *s, const char *id, const struct fm_json_value *params)
{
	struct fm_str name = fm_json_get(params, "name")->text;
	const struct fm_mcp_tool *tool = fm_mcp_tool_find(name, s->has);
	struct fm_diag diag;
	if (!tool) {
		snprintf(diag.text, sizeof(diag.text), "no tool is called '%.*s'; tools/list lists them",
			 (int)FM_MIN(name.len, 60u), name.p);
		answer_error(s, id, WRONG_PARAMS, diag.text);
		return;
	}
	struct fm_arena arena;
	struct fm_mcp_words words = { 0 };
	fm_arena_init(&arena);
	struct fm_buf id_text = { 0 };
	fm_buf_str(&id_text, id);
	if (fm_mcp_tool_words(tool, fm_json_get(params, "arguments"), &arena, &words, &diag))
		answer_error(s, id, WRONG_PARAMS, diag.text);
	else if (s->start(&s->calls, &id_text, &words, &diag))
		answer_error(s, id, BUSY, diag.text);
	fm_buf_deinit(&id_text);
	fm_vec_deinit(&words.argv);
	fm_arena_deinit(&arena);
}

// An id as JSON again. False: it is none that a request may have.
static bool put_id(struct fm_buf *b, const struct fm_json_value *id)
{
	_cleanup_free_ char *text = NULL;
	size_t len = 0;
	if (id->kind == FM_JSON_NUMBER && fabs(id->number) < 1e15 && id->number == floor(id->number)) {
		fm_buf_printf(b, "%.0f", id->number);
		return true;
	}
	if (id->kind != FM_JSON_STRING)
		return false;
	FILE *f = open_memstream(&text, &len);
	if (!f)
		return false;
	fm_json_escape(f, id->text);
	fclose(f);
	fm_buf_bytes(b, text, len);
	return true;
}

static void notify(struct fm_mcp_server *s, struct fm_str method, const struct fm_json_value *params)
{
	struct fm_buf id = { 0 };
	if (fm_str_eq(method, FM_STR_LIT("notifications/cancelled")) && put_id(&id, fm_json_get(params, "requestId")))
		fm_mcp_call_cancel(&s->calls, &id);
	fm_buf_deinit(&id);
}

static void request(struct fm_mcp_server *s, const char *id, struct fm_str method, const struct fm_json_value *params)
{
	static const struct {
		const char *name;
		void (*answer)(struct fm_mcp_server *s, const char *id, const struct fm_json_value *params);
	} methods[] = {
		{ "initialize", initialize }, { "server/discover", discover }, { "ping", ping },
		{ "tools/list", list_tools }, { "tools/call", call_tool },
	};
	if (params->kind != FM_JSON_OBJECT && params->kind != FM_JSON_NULL) {
		answer_error(s, id, WRONG_PARAMS, "'params' must be an object");
		return;
	}
	struct fm_str version = fm_json_get(fm_json_get(params, "_meta"), VERSION_KEY)->text;
	if (version.len && !fm_str_eq(version, fm_str_of(stateless))) {
		answer_version(s, id, version);
		return;
	}
	for (size_t i = 0; i < FM_ARRAY_LEN(methods); i++) {
		if (fm_str_eq(method, fm_str_of(methods[i].name))) {
			methods[i].answer(s, id, params);
			return;
		}
	}
	answer_error(s, id, NO_METHOD, "there is no such method");
}

static void receive(struct fm_mcp_server *s, const struct fm_json_value *message)
{
	const struct fm_json_value *id = fm_json_get(message, "id"), *method = fm_json_get(message, "method");
	bool has_id = false;
	for (const struct fm_json_value *v = message->first; v && message->kind == FM_JSON_OBJECT; v = v->next)
		has_id |= fm_str_eq(v->key, FM_STR_LIT("id"));
	if (message->kind == FM_JSON_OBJECT && has_id && method->kind == FM_JSON_NULL &&
	    (fm_json_get(message, "result")->kind != FM_JSON_NULL ||
	     fm_json_get(message, "error")->kind != FM_JSON_NULL))
		return; // an answer, and we asked nothing
	struct fm_buf id_text = { 0 };
	bool is_fine = message->kind == FM_JSON_OBJECT && method->kind == FM_JSON_STRING &&
		       fm_str_eq(fm_json_get(message, "jsonrpc")->text, FM_STR_LIT("2.0"));
	bool is_id_fine = put_id(&id_text, id);
	if (!is_fine || (has_id && !is_id_fine))
		answer_error(s, is_id_fine ? (const char *)id_text.data : "null", NO_REQUEST,
			     message->kind == FM_JSON_ARRAY ? "send one request a line, not several in an array"
							    : "not a request of JSON-RPC 2.0");
	else if (has_id)
		request(s, (const char *)id_text.data, method->text, fm_json_get(message, "params"));
	else
		notify(s, method->text, fm_json_get(message, "params"));
	fm_buf_deinit(&id_text);
}

void fm_mcp_receive(struct fm_mcp_server *s, const struct fm_str *line)
{
	struct fm_arena arena;
	struct fm_json_value *message;
	if (!line) {
		char text[64];
		snprintf(text, sizeof(text), "a message has at most %u bytes", FM_MCP_MAX_LINE);
		answer_error(s, "null", NO_REQUEST, text);
		return;
	}
	if (strspn(line->p, " \t\r") >= line->len) // an empty line is nothing
		return;
	fm_arena_init(&arena);
	if (fm_json_parse(&arena, *line, &message))
		answer_error(s, "null", NOT_JSON, "not JSON");
	else
		receive(s, message);
	fm_arena_deinit(&arena);
}

void fm_mcp_answer_call(struct fm_mcp_server *s, const struct fm_mcp_call *call, int status)
{
	if (call->is_cancelled) // nobody waits for it any more
		return;
	struct fm_buf text = { 0 }, id = { 0 };
	fm_mcp_call_text(call, status, &text);
	fm_buf_bytes(&id, call->id.data, call->id.len); // with its NUL
	answer_text(s, (const char *)id.data,
		    (struct fm_str){ text.len ? (const char *)text.data : "", (uint32_t)text.len }, status != 0);
	fm_buf_deinit(&text);
	fm_buf_deinit(&id);
}
