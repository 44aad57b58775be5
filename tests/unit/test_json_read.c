// SPDX-License-Identifier: Apache-2.0
#include "test.h"

#include "base/json.h"

static struct fm_arena arena;

static const struct fm_json_value *parse(const char *text)
{
	struct fm_json_value *root = NULL;
	fm_arena_init(&arena);
	CHECK_EQ(fm_json_parse(&arena, fm_str_of(text), &root), FM_OK);
	return root;
}

TEST(members_are_found_by_name_whatever_their_kind)
{
	const struct fm_json_value *v =
		parse(" { \"a\" : 1.5e1, \"b\":[true,false,null], \"c\":\"x\", \"d\":{\"e\":-2} } ");
	CHECK_EQ(v->kind, FM_JSON_OBJECT);
	CHECK_EQ(fm_json_get(v, "a")->number, 15);
	const struct fm_json_value *b = fm_json_get(v, "b")->first;
	CHECK(b->is_true && b->kind == FM_JSON_BOOL);
	CHECK(!b->next->is_true && b->next->kind == FM_JSON_BOOL);
	CHECK_EQ(b->next->next->kind, FM_JSON_NULL);
	CHECK(!b->next->next->next);
	CHECK_STR(fm_json_get(v, "c")->text, "x");
	CHECK_EQ(fm_json_get(fm_json_get(v, "d"), "e")->number, -2);
}

TEST(what_is_not_there_is_null_and_empty)
{
	const struct fm_json_value *v = parse("{\"a\":[]}");
	CHECK_EQ(fm_json_get(v, "b")->kind, FM_JSON_NULL);
	CHECK_EQ(fm_json_get(fm_json_get(v, "b"), "c")->number, 0);
	CHECK_STR(fm_json_get(fm_json_get(v, "a"), "c")->text, "");
}

TEST(escapes_become_characters)
{
	const struct fm_json_value *v = parse("\"\\u00e9\\n\\\"\\\\\\/ \\ud83d\\ude00 \\ud83d.\"");
	CHECK_STR(v->text, "\xc3\xa9\n\"\\/ \xf0\x9f\x98\x80 \xef\xbf\xbd.");
}

TEST(what_is_not_json_is_refused)
{
	static const char *const wrong[] = { "",      "{",          "{\"a\"}",     "{\"a\":1,}", "[1 2]",    "tru",
					     "\"abc", "\"\\x\"",    "\"\\u12g4\"", "1.2.3",      "[1]x",     "{a:1}",
					     "\"\\",  "\"\\u1\"23", "[,]",         "nul",        "\"\\ud8\"" };
	for (size_t i = 0; i < FM_ARRAY_LEN(wrong); i++) {
		struct fm_json_value *root = NULL;
		fm_arena_init(&arena);
		CHECK_EQ(fm_json_parse(&arena, fm_str_of(wrong[i]), &root), FM_E_CORRUPT);
		CHECK(!root);
		fm_arena_deinit(&arena);
	}
}

TEST(nesting_has_an_end)
{
	char text[2 * FM_JSON_READ_DEPTH + 3] = "";
	for (int i = 0; i < FM_JSON_READ_DEPTH; i++)
		strcat(text, "[");
	for (int i = 0; i < FM_JSON_READ_DEPTH; i++)
		strcat(text, "]");
	CHECK_EQ(parse(text)->kind, FM_JSON_ARRAY);
	struct fm_json_value *root;
	char deeper[sizeof(text) + 2];
	snprintf(deeper, sizeof(deeper), "[%s]", text);
	CHECK_EQ(fm_json_parse(&arena, fm_str_of(deeper), &root), FM_E_CORRUPT);
}

TEST_MAIN()
