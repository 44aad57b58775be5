// SPDX-License-Identifier: Apache-2.0
// Any bytes as lines from a coding agent: every answer is one line of JSON, and a call becomes words
// of which the client's are no options. Nothing is started.
#include "fuzz.h"

#include "cli/mcp/mcp.h"

static bool has(const char *command)
{
	return strcmp(command, "query") != 0;
}

static enum fm_err start(struct fm_mcp_calls *calls, const struct fm_buf *id, const struct fm_mcp_words *words,
			 struct fm_diag *diag)
{
	(void)calls;
	FUZZ_CHECK(id->len && words->limit_s > 0 && words->argv.n >= 4);
	FUZZ_CHECK(!words->argv.items[words->argv.n - 1] && !strcmp(words->argv.items[0], "fathom"));
	for (size_t i = 0; i + 1 < words->argv.n; i++)
		FUZZ_CHECK(words->argv.items[i]);
	return fm_diag_set(diag, FM_E_REFUSED, "not here");
}

static void receive(void *ctx, const struct fm_str *line)
{
	fm_mcp_receive(ctx, line);
}

static void check_answers(const char *text, size_t len)
{
	for (const char *end = text + len; text < end;) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		struct fm_arena arena;
		struct fm_json_value *root;
		FUZZ_CHECK(newline);
		fm_arena_init(&arena);
		FUZZ_CHECK(!fm_json_parse(&arena, (struct fm_str){ text, (uint32_t)(newline - text) }, &root));
		FUZZ_CHECK((fm_json_get(root, "error")->kind == FM_JSON_OBJECT) !=
			   (fm_json_get(root, "result")->kind == FM_JSON_OBJECT));
		fm_arena_deinit(&arena);
		text = newline + 1;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = NULL;
	size_t len = 0, half = size / 2;
	struct fm_mcp_server s = { .out = open_memstream(&text, &len), .has = has, .start = start };
	struct fm_mcp_lines lines = { 0 };
	FUZZ_CHECK(s.out);
	fm_mcp_lines_feed(&lines, (const char *)data, half, receive, &s); // in two parts, as pipes do
	fm_mcp_lines_feed(&lines, (const char *)data + half, size - half, receive, &s);
	fm_mcp_lines_feed(&lines, "\n", 1, receive, &s);
	fclose(s.out);
	check_answers(text, len);
	free(text);
	fm_buf_deinit(&lines.line);
	return 0;
}
