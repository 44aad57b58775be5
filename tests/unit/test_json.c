// SPDX-License-Identifier: Apache-2.0
#include "test.h"

#include <math.h>

#include "base/json.h"
#include "base/utf8.h"

static char *render(void (*write)(struct fm_json *j))
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	struct fm_json j;
	fm_json_init(&j, f);
	write(&j);
	fclose(f);
	return text;
}

static void write_all_kinds(struct fm_json *j)
{
	fm_json_object(j, NULL);
	fm_json_str(j, "s", FM_STR_LIT("a\"b\\c\n\x01\x7f"));
	fm_json_u64(j, "u", UINT64_MAX);
	fm_json_i64(j, "i", -5);
	fm_json_real(j, "r", 1.5);
	fm_json_real(j, "whole", 100);
	fm_json_real(j, "tiny", 1e-9);
	fm_json_real(j, "nan", NAN);
	fm_json_bool(j, "b", true);
	fm_json_array(j, "a");
	fm_json_u64(j, NULL, 1);
	fm_json_newline(j);
	fm_json_array(j, NULL);
	fm_json_end(j);
	fm_json_end(j);
	fm_json_null(j, "n");
	fm_json_end(j);
	fm_json_newline(j);
}

TEST(every_kind_of_value_is_written)
{
	char *text = render(write_all_kinds);
	CHECK_STR(fm_str_of(text),
		  "{\"s\":\"a\\\"b\\\\c\\n\\u0001\\u007f\",\"u\":18446744073709551615,\"i\":-5,\"r\":1.5,\"whole\":100,"
		  "\"tiny\":0.000000001,\"nan\":null,\"b\":true,\"a\":[1,\n[]],\"n\":null}\n");
	free(text);
}

static struct fm_str escaped(struct fm_str s, char *to, size_t room)
{
	FILE *f = fmemopen(to, room, "w");
	fm_json_escape(f, s);
	long n = ftell(f);
	fclose(f);
	return (struct fm_str){ to, (uint32_t)n };
}

TEST(undecodable_bytes_become_the_replacement_character)
{
	char room[256];
	CHECK_STR(escaped(FM_STR_LIT("\xff"), room, sizeof(room)), "\"\\ufffd\"");
	CHECK_STR(escaped(FM_STR_LIT("\xc3\xa9"), room, sizeof(room)), "\"\xc3\xa9\"");
	CHECK_STR(escaped(FM_STR_LIT("\xc3"), room, sizeof(room)), "\"\\ufffd\"");
	CHECK_STR(escaped(FM_STR_LIT("\xed\xa0\x80"), room, sizeof(room)), "\"\\ufffd\\ufffd\\ufffd\""); // a surrogate
	CHECK_STR(escaped(FM_STR_LIT("\xc0\xaf"), room, sizeof(room)), "\"\\ufffd\\ufffd\"");            // overlong
	CHECK_STR(escaped(FM_STR_LIT("\xf0\x9f\x90\x8d"), room, sizeof(room)), "\"\xf0\x9f\x90\x8d\"");
	CHECK_STR(escaped(FM_STR_LIT("\xf4\x90\x80\x80"), room, sizeof(room)),
		  "\"\\ufffd\\ufffd\\ufffd\\ufffd\""); // past U+10FFFF
	CHECK_STR(escaped(FM_STR_LIT("\xe2\x80\xa8"), room, sizeof(room)), "\"\\u2028\"");
	CHECK_STR(escaped(FM_STR_LIT("\xef\xbf\xbd"), room, sizeof(room)), "\"\xef\xbf\xbd\""); // U+FFFD itself
}

TEST(utf8_survives_a_round_trip)
{
	for (uint32_t c = 1; c < 0x110000; c += c < 0x3000 ? 1 : 97) {
		if (c >= 0xd800 && c < 0xe000)
			continue;
		struct fm_buf b = { 0 };
		fm_utf8_put(&b, c);
		const char *p = (const char *)b.data, *end = p + b.len;
		CHECK_EQ(fm_utf8_next(&p, end), c);
		CHECK(p == end);
		fm_buf_deinit(&b);
	}
	CHECK_EQ(fm_utf8_width('a'), 1);
	CHECK_EQ(fm_utf8_width(0x1b), 0);
	CHECK_EQ(fm_utf8_width(0x4e2d), 2);
	CHECK_EQ(fm_utf8_width(0x301), 0);
}

TEST_MAIN()
