// SPDX-License-Identifier: Apache-2.0
#include "format/redact.h"

#include <stdlib.h>

#include "test.h"

static struct fm_redact *rules(const char *also)
{
	struct fm_redact *r = NULL;
	struct fm_diag diag;
	CHECK_EQ(fm_redact_create(also, &r, &diag), FM_OK);
	return r;
}

// Words are separated by '|' here.
static void check_words(const char *also, const char *words, const char *expected)
{
	struct fm_redact *r = rules(also);
	struct fm_buf out = { 0 };
	char joined[1024];
	snprintf(joined, sizeof(joined), "%s", words);
	for (char *p = joined; *p; p++)
		*p = *p == '|' ? 0 : *p;
	fm_redact_command(r, (struct fm_str){ joined, (uint32_t)strlen(words) }, &out);
	for (size_t i = 0; i < out.len; i++)
		out.data[i] = out.data[i] ? out.data[i] : '|';
	CHECK_STR(((struct fm_str){ out.data ? (char *)out.data : "", (uint32_t)out.len }), expected);
	fm_buf_deinit(&out);
	fm_redact_destroy(r);
}

static void check_source(const char *also, const char *text, const char *expected)
{
	struct fm_redact *r = rules(also);
	struct fm_buf out = { 0 };
	fm_redact_source(r, fm_str_of(text), &out);
	CHECK_STR(((struct fm_str){ out.data ? (char *)out.data : "", (uint32_t)out.len }), expected);
	fm_buf_deinit(&out);
	fm_redact_destroy(r);
}

TEST(values_that_are_named_like_secrets_are_masked)
{
	check_words(NULL, "app|--password|hunter2|file", "app|--password|***|file");
	check_words(NULL, "app|--db-password=hunter2|x", "app|--db-password=***|x");
	check_words(NULL, "env|API_KEY=abc|MY_SECRET=d|PATH=/bin", "env|API_KEY=***|MY_SECRET=***|PATH=/bin");
	check_words(NULL, "curl|-H|Authorization: Bearer abc", "curl|-H|Authorization: ***");
	check_words(NULL, "x|{\"token\": \"abc\"}", "x|{\"token\": ***");
	check_words(NULL, "x|--token|--verbose|y", "x|--token|***|y"); // too much rather than too little
}

TEST(what_looks_like_a_secret_is_masked_wherever_it_is)
{
	check_words(NULL, "x|postgres://bob:hunter2@db/x", "x|postgres***db/x");
	check_words(NULL, "x|id=AKIA0123456789ABCDEF.", "x|id=***.");
	check_words(NULL, "ghp_0123456789abcdefghij|sk-0123456789abcdefghij", "***|***");
	check_words(NULL, "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.x", "***x");
	check_words(NULL, "0123456789abcdef0123456789abcdef01234567", "***");
}

TEST(what_does_not_stays)
{
	static const char *const plain[] = { "python3|-m|pytest|-k|test_tokens",
					     "train|--tokenizer|gpt2|--max-tokens|100",
					     "x|--secretary|bob|http://host:80/a@b", "x|--token-file|path", "" };
	for (size_t i = 0; i < FM_ARRAY_LEN(plain); i++)
		check_words(NULL, plain[i], plain[i]);
	check_source(NULL, "def tokens(tokenizer):\n    return tokenizer('x')\n# a secret\nlogin(password)\n",
		     "def tokens(tokenizer):\n    return tokenizer('x')\n# a secret\nlogin(password)\n");
}

TEST(lines_with_secrets_are_masked_and_stay_lines)
{
	check_source(NULL, "a = 1\n    password = \"hunter2\"\nb = 2", "a = 1\n    ***\nb = 2");
	check_source(NULL, "connect(user='bob', password='x')\n", "***\n");
	check_source(NULL, "\"api_key\": \"abc\",\r\n", "***\n");
	check_source(NULL, "token: str = 'x'\nURL = \"https://u:p@h/\"\n", "***\n***\n");
	check_source(NULL, "!export TOKEN=abc\n", "***\n");
	check_source(NULL, "k = '''-----BEGIN RSA PRIVATE KEY-----\nMIIabc\nxyz\n-----END RSA PRIVATE KEY-----\n'''\nx",
		     "***\n***\n***\n***\n'''\nx");
}

TEST(a_pattern_of_ones_own_masks_too)
{
	check_words("acme-[0-9]+|(bob)", "x|acme-12|acme-x|bobby", "x|***|acme-x|***by");
	check_source("acme-[0-9]+", "a = acme-12\nb\n", "***\nb\n");
}

TEST(a_pattern_that_is_none_is_refused)
{
	struct fm_redact *r = NULL;
	struct fm_diag diag;
	CHECK_EQ(fm_redact_create("(", &r, &diag), FM_E_USAGE);
	CHECK(strstr(diag.text, "--redact-also wants a regular expression, not '('"));
	CHECK_EQ(fm_redact_create("x*", &r, &diag), FM_E_USAGE);
	CHECK(!r);
}

TEST(a_line_that_is_too_long_to_look_through_is_masked)
{
	struct fm_redact *r = rules(NULL);
	struct fm_buf out = { 0 };
	char *text = malloc(1 << 20);
	CHECK(text);
	memset(text, 'x', 1 << 20);
	text[10] = '\n';
	CHECK_EQ(fm_redact_source(r, (struct fm_str){ text, 1 << 20 }, &out), 1);
	CHECK_STR(((struct fm_str){ out.data ? (char *)out.data : "", (uint32_t)out.len }), "xxxxxxxxxx\n***");
	out.len = 0;
	CHECK_EQ(fm_redact_command(r, (struct fm_str){ text + 11, (1 << 20) - 11 }, &out), 1);
	CHECK_EQ(out.len, 3);
	fm_buf_deinit(&out);
	fm_redact_destroy(r);
	free(text);
}

TEST_MAIN()
