// SPDX-License-Identifier: Apache-2.0
#include "base/utf8.h"

#include "base/utf8_encode.h"

uint32_t fm_utf8_next(const char **p, const char *end)
{
	const uint8_t *s = (const uint8_t *)*p;
	size_t left = (size_t)(end - *p), n;
	uint32_t c = s[0], min;
	(*p)++;
	if (c < 0x80)
		return c;
	if (c >= 0xc2 && c < 0xe0)
		n = 1, min = 0x80, c &= 0x1f;
	else if (c >= 0xe0 && c < 0xf0)
		n = 2, min = 0x800, c &= 0x0f;
	else if (c >= 0xf0 && c < 0xf5)
		n = 3, min = 0x10000, c &= 0x07;
	else
		return FM_UTF8_BAD;
	if (left < n + 1)
		return FM_UTF8_BAD;
	for (size_t i = 1; i <= n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return FM_UTF8_BAD;
		c = c << 6 | (s[i] & 0x3f);
	}
	if (c < min || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return FM_UTF8_BAD;
	*p += n;
	return c;
}

void fm_utf8_put(struct fm_buf *b, uint32_t c)
{
	uint8_t bytes[4];
	fm_buf_bytes(b, bytes, fm_utf8_encode(bytes, c));
}

struct range {
	uint32_t first, last;
};

static int is_in(const struct range *ranges, size_t n, uint32_t c)
{
	for (size_t i = 0; i < n; i++)
		if (c >= ranges[i].first && c <= ranges[i].last)
			return 1;
	return 0;
}

unsigned fm_utf8_width(uint32_t c)
{
	// The blocks that matter for names: combining marks and joiners; East Asian wide,
	// full-width and emoji.
	static const struct range zero[] = { { 0x300, 0x36f },   { 0x200b, 0x200f }, { 0x202a, 0x202e },
					     { 0x2060, 0x2064 }, { 0x20d0, 0x20ff }, { 0xfe00, 0xfe0f },
					     { 0xfeff, 0xfeff } };
	static const struct range two[] = { { 0x1100, 0x115f },   { 0x2e80, 0x303e },  { 0x3041, 0xa4cf },
					    { 0xac00, 0xd7a3 },   { 0xf900, 0xfaff },  { 0xfe30, 0xfe6f },
					    { 0xff00, 0xff60 },   { 0xffe0, 0xffe6 },  { 0x1f300, 0x1f64f },
					    { 0x1f900, 0x1f9ff }, { 0x20000, 0x3fffd } };
	if (c < 0x20 || (c >= 0x7f && c < 0xa0))
		return 0;
	if (c < 0x300)
		return 1;
	if (is_in(zero, FM_ARRAY_LEN(zero), c))
		return 0;
	return is_in(two, FM_ARRAY_LEN(two), c) ? 2 : 1;
}

bool fm_utf8_is_unfit(uint32_t c)
{
	static const struct range marks[] = {
		{ 0x61c, 0x61c }, { 0x200e, 0x200f }, { 0x2028, 0x202e }, { 0x2066, 0x2069 }
	};
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x61c && is_in(marks, FM_ARRAY_LEN(marks), c));
}

void fm_utf8_clean(struct fm_buf *b, struct fm_str s)
{
	const char *p = s.p, *end = s.p + s.len;
	while (p < end) {
		uint32_t c = fm_utf8_next(&p, end);
		fm_utf8_put(b, c == '\t' ? ' ' : fm_utf8_is_unfit(c) ? '?' : c);
	}
}

void fm_utf8_print(FILE *out, struct fm_str s)
{
	struct fm_buf clean = { 0 };
	fm_utf8_clean(&clean, s);
	if (clean.len)
		fwrite(clean.data, 1, clean.len, out);
	fm_buf_deinit(&clean);
}
