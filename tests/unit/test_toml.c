// SPDX-License-Identifier: Apache-2.0
#include "base/toml.h"

#include "test.h"

struct seen {
	char text[1024];
};

static enum fm_err note(void *ctx, const struct fm_toml_value *v, struct fm_diag *diag)
{
	struct seen *s = ctx;
	size_t len = strlen(s->text);
	snprintf(s->text + len, sizeof(s->text) - len, "%.*s=%.*s/%d@%u;", (int)v->key.len, v->key.p, (int)v->text.len,
		 v->text.p, v->kind, v->line);
	return FM_OK;
}

static void check(const char *toml, const char *expected)
{
	struct seen s = { "" };
	struct fm_diag diag;
	enum fm_err err = fm_toml_read(fm_str_of(toml), "tool.fathom", note, &s, &diag);
	if (err)
		printf("%s\n", diag.text);
	CHECK_EQ(err, FM_OK);
	CHECK_STR(fm_str_of(s.text), expected);
}

static void check_bad(const char *toml, const char *expected)
{
	struct seen s = { "" };
	struct fm_diag diag;
	CHECK_EQ(fm_toml_read(fm_str_of(toml), "tool.fathom", note, &s, &diag), FM_E_CORRUPT);
	CHECK_STR(fm_str_of(diag.text), expected);
}

TEST(plain_values_of_the_table_are_read)
{
	check("[tool.fathom]\nrate = 2000 # why\nname='a b'\nflag = true\nreal = 2.5\n",
	      "rate=2000/1@2;name=a b/0@3;flag=true/2@4;real=2.5/1@5;");
	check("[tool.\"fathom\"]\r\nrate=1\r\n", "rate=1/1@2;");
	check("[ tool . fathom ]\nrate=1", "rate=1/1@2;");
	check("[tool]\nfathom.rate = 1\n", "rate=1/1@2;");
	check("\xef\xbb\xbftool.fathom.rate = 1\n", "rate=1/1@1;");
	check("[tool.fathom]\na = [1, 2]\nb = { c = 1 }\nd = 1979-05-27\n",
	      "a=[1, 2]/3@2;b={ c = 1 }/3@3;d=1979-05-27/1@4;");
}

TEST(strings_lose_their_quotes_and_escapes)
{
	check("[tool.fathom]\na = \"x\\t\\u00e4\\\"\"\n", "a=x\t\xc3\xa4\"/0@2;");
	check("[tool.fathom]\na = '\\t'\n", "a=\\t/0@2;");
	check("[tool.fathom]\na = \"\"\"\none \\\n   two\"\"\"\nb = ''\n", "a=one two/0@2;b=/0@5;");
}

TEST(what_looks_like_the_table_inside_strings_arrays_and_comments_is_none)
{
	check("# [tool.fathom]\nx = \"\"\"\n[tool.fathom]\nrate = 1\n\"\"\"\ny = [\n'[tool.fathom]', # ]\n]\nrate = "
	      "2\n",
	      "");
	check("[[tool.fathom]]\nrate = 1\n[tool.fathomless]\nrate = 2\n[other.tool.fathom]\nrate = 3\n", "");
}

TEST(what_is_not_toml_is_refused_with_its_line)
{
	check_bad("a = 1\nb = \"x\n", "line 2: a string without its closing quote");
	check_bad("[tool.fathom\nrate = 1\n", "line 1: a table's name without its ']'");
	check_bad("\n\nrate\n", "line 3: '=' was expected after a key");
	check_bad("rate = \n", "line 1: a value was expected here");
	check_bad("rate = 1 2\n", "line 1: something follows a value on its line");
	check_bad("a = [1, 2\nb = 3\n", "line 2: an array without its ']'");
	check_bad("a = \"\\q\"\n", "line 1: an unknown escape in a string");
}

static void add(void *ctx, struct fm_str item)
{
	struct seen *s = ctx;
	size_t len = strlen(s->text);
	snprintf(s->text + len, sizeof(s->text) - len, "%.*s;", (int)item.len, item.p);
}

TEST(strings_of_a_list)
{
	struct seen s = { "" };
	CHECK(fm_toml_strings(FM_STR_LIT("[ 'a b', # why\n \"c\\t\", ]"), add, &s));
	CHECK_STR(fm_str_of(s.text), "a b;c\t;");
	CHECK(fm_toml_strings(FM_STR_LIT("[]"), add, &s));
	static const char *const none[] = { "", "[", "[1]", "['a'", "['a' 'b']", "['a", "{ a = 'b' }", "[['a']]" };
	for (size_t i = 0; i < FM_ARRAY_LEN(none); i++)
		CHECK(!fm_toml_strings(fm_str_of(none[i]), add, &s));
}

TEST_MAIN()
