// SPDX-License-Identifier: Apache-2.0
// The tools are rows of a table, from which both their schemas and their command lines come.
#include "cli/mcp/mcp.h"

#include <math.h>
#include <string.h>

#include "base/compiler.h"

#define MAX_PARAMS 8
#define MAX_WORDS 256 // arguments of a program

enum kind { TEXT, TEXTS, NUMBER, WHOLE, FLAG };
static const char *const type_names[] = { "string", "array", "number", "integer", "boolean" };

struct param {
	const char *name;
	enum kind kind;
	bool is_required;
	const char *option; // "--top=": the value stands behind it; NULL: an operand
	const char *meaning;
};

struct fm_mcp_tool {
	const char *name, *command;
	const char *fixed; // its first option; NULL = none
	bool is_run;       // starts a program of the user's, under a time limit of the client's
	const char *meaning;
	struct param params[MAX_PARAMS]; // options, then operands in their order
};

#define CAPTURE_MEANING "a capture (profile.fathom), or the results folder of a run"

static const struct fm_mcp_tool tools[] = {
	{ "run",
	  "run",
	  "--markdown",
	  true,
	  "Runs a Python script, module or program under the profiler and reports where its time and memory went: the "
	  "verdict, the lines worth changing, the path of the capture. Prints the beginning and the end of what the "
	  "program prints.",
	  {
		  { "time_limit_s", NUMBER, false,
		    "--duration=", "ask the program to end after this many seconds (60)" },
		  { "repeat", WHOLE, false, "--repeat=", "run it this many times, which shows how much runs differ" },
		  { "python", TEXT, false, "--python=", "the interpreter, or a virtual environment's folder" },
		  { "module", FLAG, false, "-m", "the target is a module, as for python -m" },
		  { "target", TEXT, true, NULL, "a script, or a program" },
		  { "arguments", TEXTS, false, NULL, "of the target" },
	  } },
	{ "report",
	  "report",
	  "--markdown",
	  false,
	  "What a capture says: the verdict, the lines worth changing with their source, functions, memory, what was "
	  "not "
	  "seen, the next command. 8 KB at most.",
	  {
		  { "detailed", FLAG, false, "--detailed", "include libraries" },
		  { "capture", TEXT, true, NULL, CAPTURE_MEANING },
	  } },
	{ "focus",
	  "report",
	  "--markdown",
	  false,
	  "One function or line of a capture: who calls it, what it calls, its lines, memory, waiting and threads.",
	  {
		  { "what", TEXT, true,
		    "--focus=", "a function (\"parse\", \"Parser.parse\") or a place (\"parser.py:120\")" },
		  { "capture", TEXT, true, NULL, CAPTURE_MEANING },
	  } },
	{ "query",
	  "query",
	  "--markdown",
	  false,
	  "One SELECT, in SQLite's dialect, over the tables of a capture: functions, lines, stacks, samples, threads, "
	  "allocations, waits and more. PRAGMA table_list names them, PRAGMA table_info(lines) the columns of one.",
	  {
		  { "limit", WHOLE, false, "--limit=", "maximum number of rows (50)" },
		  { "capture", TEXT, true, NULL, CAPTURE_MEANING },
		  { "sql", TEXT, true, NULL, "one SELECT" },
	  } },
	{ "diff",
	  "diff",
	  "--markdown",
	  false,
	  "What got faster, slower or bigger from one capture to another, with 95% intervals.",
	  {
		  { "base", TEXT, true, NULL, "before: " CAPTURE_MEANING },
		  { "new", TEXT, true, NULL, "after: " CAPTURE_MEANING },
	  } },
	{ "check",
	  "check",
	  NULL,
	  false,
	  "Whether the second capture is slower or bigger than a limit allows: exit code 0 if it is not.",
	  {
		  { "max_slowdown_pct", NUMBER, false, "--max-slowdown=", "how much slower it may be, in percent (5)" },
		  { "max_growth_pct", NUMBER, false,
		    "--max-growth=", "how much more memory it may use, in percent (any)" },
		  { "base", TEXT, true, NULL, "before: " CAPTURE_MEANING },
		  { "new", TEXT, true, NULL, "after: " CAPTURE_MEANING },
	  } },
};

static void write_param(struct fm_json *j, const struct param *p)
{
	fm_json_object(j, p->name);
	fm_json_str(j, "type", fm_str_of(type_names[p->kind]));
	if (p->kind == TEXTS) {
		fm_json_object(j, "items");
		fm_json_str(j, "type", FM_STR_LIT("string"));
		fm_json_end(j);
		fm_json_u64(j, "maxItems", MAX_WORDS);
	}
	if (p->kind == NUMBER || p->kind == WHOLE)
		fm_json_u64(j, "minimum", p->kind == WHOLE);
	fm_json_str(j, "description", fm_str_of(p->meaning));
	fm_json_end(j);
}

static void write_tool(struct fm_json *j, const struct fm_mcp_tool *tool)
{
	fm_json_object(j, NULL);
	fm_json_str(j, "name", fm_str_of(tool->name));
	fm_json_str(j, "description", fm_str_of(tool->meaning));
	fm_json_object(j, "inputSchema");
	fm_json_str(j, "type", FM_STR_LIT("object"));
	fm_json_object(j, "properties");
	for (const struct param *p = tool->params; p < tool->params + MAX_PARAMS && p->name; p++)
		write_param(j, p);
	fm_json_end(j);
	fm_json_array(j, "required");
	for (const struct param *p = tool->params; p < tool->params + MAX_PARAMS && p->name; p++)
		if (p->is_required)
			fm_json_str(j, NULL, fm_str_of(p->name));
	fm_json_end(j);
	fm_json_bool(j, "additionalProperties", false);
	fm_json_end(j);
	fm_json_object(j, "annotations");
	fm_json_bool(j, "readOnlyHint", !tool->is_run);
	fm_json_end(j);
	fm_json_end(j);
}

void fm_mcp_tools_write(struct fm_json *j, bool (*has)(const char *command))
{
	fm_json_array(j, "tools");
	for (size_t i = 0; i < FM_ARRAY_LEN(tools); i++)
		if (has(tools[i].command))
			write_tool(j, &tools[i]);
	fm_json_end(j);
}

const struct fm_mcp_tool *fm_mcp_tool_find(struct fm_str name, bool (*has)(const char *command))
{
	for (size_t i = 0; i < FM_ARRAY_LEN(tools); i++)
		if (fm_str_eq(fm_str_of(tools[i].name), name) && has(tools[i].command))
			return &tools[i];
	return NULL;
}

// ---- command lines ----

static bool is_kind(const struct fm_json_value *v, enum kind kind)
{
	switch (kind) {
	case TEXT:
		return v->kind == FM_JSON_STRING && !memchr(v->text.p, 0, v->text.len);
	case TEXTS:
		for (const struct fm_json_value *item = v->first; item; item = item->next)
			if (!is_kind(item, TEXT))
				return false;
		return v->kind == FM_JSON_ARRAY;
	case NUMBER:
		return v->kind == FM_JSON_NUMBER && v->number >= 0 && v->number < 1e9;
	case WHOLE:
		return v->kind == FM_JSON_NUMBER && v->number >= 1 && v->number < 1e9 && v->number == floor(v->number);
	case FLAG:
		return v->kind == FM_JSON_BOOL;
	}
	return false;
}

static const struct param *find_param(const struct fm_mcp_tool *tool, struct fm_str name)
{
	for (const struct param *p = tool->params; p < tool->params + MAX_PARAMS && p->name; p++)
		if (fm_str_eq(fm_str_of(p->name), name))
			return p;
	return NULL;
}

static enum fm_err check(const struct fm_mcp_tool *tool, const struct fm_json_value *arguments, struct fm_diag *diag)
{
	if (arguments->kind != FM_JSON_OBJECT && arguments->kind != FM_JSON_NULL)
		return fm_diag_set(diag, FM_E_USAGE, "the arguments must be an object");
	for (const struct fm_json_value *v = arguments->first; v; v = v->next) {
		const struct param *p = find_param(tool, v->key);
		if (!p)
			return fm_diag_set(diag, FM_E_USAGE, "%s has no argument '%.*s'", tool->name,
					   (int)FM_MIN(v->key.len, 60u), v->key.p);
		if (!is_kind(v, p->kind))
			return fm_diag_set(diag, FM_E_USAGE, "%s wants '%s' to be of type %s%s", tool->name, p->name,
					   type_names[p->kind], p->kind == TEXTS ? ", of strings" : "");
	}
	for (const struct param *p = tool->params; p < tool->params + MAX_PARAMS && p->name; p++)
		if (p->is_required && fm_json_get(arguments, p->name)->kind == FM_JSON_NULL)
			return fm_diag_set(diag, FM_E_USAGE, "%s needs the argument '%s'", tool->name, p->name);
	return FM_OK;
}

static void add(struct fm_mcp_words *w, struct fm_arena *arena, const char *option, struct fm_str value)
{
	struct fm_buf word = { 0 };
	fm_buf_str(&word, option);
	fm_buf_bytes(&word, value.p, value.len);
	fm_vec_push(&w->argv, fm_arena_strdup(arena, (const char *)word.data, word.len));
	fm_buf_deinit(&word);
}

static void add_value(struct fm_mcp_words *w, struct fm_arena *arena, const struct param *p,
		      const struct fm_json_value *v)
{
	char number[32];
	const char *option = p->option ? p->option : "";
	if (p->kind == TEXT) {
		add(w, arena, option, v->text);
	} else if (p->kind == TEXTS) {
		for (const struct fm_json_value *item = v->first; item; item = item->next)
			add(w, arena, option, item->text);
	} else if (p->kind == FLAG) {
		if (v->is_true)
			add(w, arena, option, FM_STR_LIT(""));
	} else {
		snprintf(number, sizeof(number), p->kind == WHOLE ? "%.0f" : "%.3f", v->number);
		add(w, arena, option, fm_str_of(number));
	}
}

enum fm_err fm_mcp_tool_words(const struct fm_mcp_tool *tool, const struct fm_json_value *arguments,
			      struct fm_arena *arena, struct fm_mcp_words *ret, struct fm_diag *diag)
{
	enum fm_err err = check(tool, arguments, diag);
	if (err)
		return err;
	struct fm_mcp_words w = { .limit_s = FM_MCP_READ_S };
	double wanted_s = fm_json_get(arguments, "time_limit_s")->number;
	if (tool->is_run)
		w.limit_s = (wanted_s > 0 ? FM_MIN(wanted_s, FM_MCP_MAX_RUN_S) : FM_MCP_RUN_S) *
			    FM_MIN(FM_MAX(fm_json_get(arguments, "repeat")->number, 1.0), FM_MCP_MAX_REPEAT);
	add(&w, arena, "fathom", FM_STR_LIT(""));
	add(&w, arena, tool->command, FM_STR_LIT(""));
	if (tool->fixed)
		add(&w, arena, tool->fixed, FM_STR_LIT(""));
	if (tool->is_run && !wanted_s) {
		char text[32];
		snprintf(text, sizeof(text), "%.0f", FM_MCP_RUN_S);
		add(&w, arena, "--duration=", fm_str_of(text));
	}
	bool is_operand = false;
	for (const struct param *p = tool->params; p < tool->params + MAX_PARAMS && p->name; p++) {
		const struct fm_json_value *v = fm_json_get(arguments, p->name);
		if (!p->option && !is_operand && !fm_json_get(arguments, "module")->is_true)
			add(&w, arena, "--", FM_STR_LIT("")); // none of the client's words is an option of ours
		is_operand |= !p->option;
		if (v->kind != FM_JSON_NULL)
			add_value(&w, arena, p, v);
	}
	fm_vec_push(&w.argv, NULL);
	*ret = w;
	return FM_OK;
}
