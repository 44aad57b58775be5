// SPDX-License-Identifier: Apache-2.0
#include "test.h"

#include "render/shared/markdown.h"

typedef void write_fn(struct fm_buf *b, struct fm_str s, size_t max_bytes);

static const char *made(write_fn *write, const char *s, size_t max_bytes)
{
	static struct fm_buf b;
	b.len = 0;
	write(&b, fm_str_of(s), max_bytes);
	fm_buf_bytes(&b, "", 0);
	return (const char *)b.data;
}

#define CHECK_MADE(write, s, max, expected) CHECK_STR(fm_str_of(made(write, s, max)), expected)

TEST(what_means_something_in_markdown_is_text)
{
	CHECK_MADE(fm_markdown_text, "line 3 of my_app.py", 100, "line 3 of my_app.py");
	CHECK_MADE(fm_markdown_text, "_a_ *b* [c](d) `e` #4 a|b", 100, "\\_a\\_ \\*b\\* \\[c\\](d) \\`e\\` \\#4 a\\|b");
	CHECK_MADE(fm_markdown_text, "<img src=x> &lt; @all", 100,
		   "&lt;img src=x&gt; &amp;lt; @\xe2\x80\x8b"
		   "all");
	CHECK_MADE(fm_markdown_text, "- a\nb\x1b[2J", 100, "\\- a?b?\\[2J");
}

TEST(code_keeps_what_it_holds)
{
	CHECK_MADE(fm_markdown_code, "a | b * c", 100, "`a | b * c`");
	CHECK_MADE(fm_markdown_cell, "a | b * c", 100, "`a \\| b * c`");
	CHECK_MADE(fm_markdown_code, "x = '`'", 100, "`` x = '`' ``");
	CHECK_MADE(fm_markdown_code, "``", 100, "``` `` ```");
	CHECK_MADE(fm_markdown_code, "```\n", 100, "`'''?`");
	CHECK_MADE(fm_markdown_code, "", 100, "");
	CHECK_MADE(fm_markdown_line, "a\t`b` <c>", 100, "a `b` <c>");
}

TEST(every_piece_keeps_its_limit)
{
	static write_fn *const writers[] = { fm_markdown_text, fm_markdown_code, fm_markdown_cell, fm_markdown_line };
	static const char *const texts[] = { "aaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "@@@@@@@@@@@@@@@@@", "`````````````````",
					     "\xff\xff\xff\xff\xff\xff\xff\xff\xff", "<<<<<<||||||||||||`|`|`" };
	for (size_t w = 0; w < 4; w++)
		for (size_t t = 0; t < 5; t++)
			for (size_t max = 12; max < 40; max++)
				CHECK(strlen(made(writers[w], texts[t], max)) <= max);
	CHECK_MADE(fm_markdown_text, "abcdef", 6, "abcdef");
	CHECK_MADE(fm_markdown_text, "abcdefg", 6, "abc...");
	CHECK_MADE(fm_markdown_text, "ab<defg", 6, "ab...");
	CHECK_MADE(fm_markdown_code, "abcdefghijklmn", 20, "`abcdefghi...`");
}

TEST(titles_say_which_columns_are_figures)
{
	static const char *const titles[] = { "share:", "line" };
	struct fm_buf b = { 0 };
	fm_markdown_titles(&b, titles, 2);
	CHECK_STR(fm_str_of((const char *)b.data), "| share | line |\n|--:|---|\n");
	fm_buf_deinit(&b);
}

TEST(a_piece_is_added_whole_or_not_at_all)
{
	struct fm_buf document = { 0 }, piece = { 0 };
	fm_buf_str(&piece, "12345");
	CHECK(fm_markdown_add(&document, &piece, 8));
	CHECK_EQ(piece.len, 0);
	fm_buf_str(&piece, "1234");
	CHECK(!fm_markdown_add(&document, &piece, 8));
	CHECK_EQ(piece.len, 0);
	fm_buf_str(&piece, "123");
	CHECK(fm_markdown_add(&document, &piece, 8));
	CHECK_STR(fm_str_of((const char *)document.data), "12345123");
	fm_buf_deinit(&document);
}

TEST_MAIN()
