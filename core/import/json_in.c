// SPDX-License-Identifier: Apache-2.0
#include "import/json_in.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "base/utf8_encode.h"

#define MAX_STRING ((size_t)16 << 20)
#define MAX_DIGITS 64

static inline bool is_space(uint8_t c)
{
	return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

bool fm_json_in_is_object(const uint8_t *head, size_t n)
{
	size_t i = 0;
	while (i < n && is_space(head[i]))
		i++;
	return i < n && head[i] == '{';
}

bool fm_json_in_has(const uint8_t *head, size_t n, const char *text)
{
	return memmem(head, n, text, strlen(text)) != NULL;
}

void fm_json_in_init(struct fm_json_in *j, struct fm_input *input)
{
	*j = (struct fm_json_in){ .input = input };
}

void fm_json_in_deinit(struct fm_json_in *j)
{
	fm_buf_deinit(&j->key);
	fm_buf_deinit(&j->text);
}

// Every byte read so far is the input's past then.
static void tell_input(struct fm_json_in *j)
{
	fm_input_skip(j->input, (uint64_t)(j->p - j->base));
	j->base = j->p;
}

void fm_json_in_fail(struct fm_json_in *j, const char *error)
{
	if (j->error)
		return;
	tell_input(j);
	j->error = error;
	j->base = j->p = j->end = NULL;
}

enum fm_err fm_json_in_end(struct fm_json_in *j, struct fm_import *in)
{
	if (!j->error)
		tell_input(j);
	j->base = j->p = j->end = NULL;
	return j->error ? fm_import_bad_byte(in, "%s", j->error) : fm_import_end(in);
}

static bool more(struct fm_json_in *j)
{
	size_t n;
	if (j->error)
		return false;
	tell_input(j);
	j->p = j->base = fm_input_peek(j->input, 1, &n);
	j->end = j->base + n;
	return n > 0;
}

static inline bool has_byte(struct fm_json_in *j)
{
	return FM_LIKELY(j->p < j->end) || more(j);
}

// The next byte that is no space; 0 at the end, which is damage.
static uint8_t ahead(struct fm_json_in *j)
{
	while (has_byte(j) && is_space(*j->p))
		j->p++;
	if (has_byte(j))
		return *j->p;
	fm_json_in_fail(j, "the JSON is cut off here");
	return 0;
}

static bool take(struct fm_json_in *j, uint8_t c)
{
	if (ahead(j) != c)
		return false;
	j->p++;
	return true;
}

char fm_json_in_kind(struct fm_json_in *j)
{
	uint8_t c = ahead(j);
	return c == '-' || (c >= '0' && c <= '9') ? '0' : (char)c;
}

// ---- Strings ----

static bool take_hex(struct fm_json_in *j, uint32_t *ret)
{
	*ret = 0;
	for (int i = 0; i < 4; i++, j->p++) {
		uint32_t digit = has_byte(j) ? fm_hex_digit((char)*j->p) : FM_NO_DIGIT;
		if (digit == FM_NO_DIGIT)
			return false;
		*ret = *ret << 4 | digit;
	}
	return true;
}

static void put_character(struct fm_buf *b, uint32_t c)
{
	uint8_t bytes[4];
	fm_buf_bytes(b, bytes, fm_utf8_encode(bytes, c));
}

// After "\u". *half is the first half of a character that waits for its second, or 0.
static bool take_code_unit(struct fm_json_in *j, struct fm_buf *b, uint32_t *half)
{
	uint32_t c;
	if (!take_hex(j, &c))
		return false;
	bool is_second = c >= 0xdc00 && c < 0xe000;
	if (*half && !is_second)
		put_character(b, 0xfffd);
	if (c >= 0xd800 && c < 0xdc00) {
		*half = c;
		return true;
	}
	if (is_second)
		c = *half ? 0x10000 + ((*half - 0xd800) << 10) + (c - 0xdc00) : 0xfffd;
	put_character(b, c);
	*half = 0;
	return true;
}

// After the backslash.
static bool take_escape(struct fm_json_in *j, struct fm_buf *b, uint32_t *half)
{
	static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
	uint8_t c = has_byte(j) ? *j->p++ : 0;
	if (c == 'u')
		return take_code_unit(j, b, half);
	const char *letter = c ? strchr(letters, c) : NULL;
	if (!letter)
		return false;
	fm_buf_u8(b, (uint8_t)meanings[letter - letters]);
	return true;
}

// After the opening quote. b NULL: nobody wants it.
static bool take_string(struct fm_json_in *j, struct fm_buf *b)
{
	uint32_t half = 0;
	while (has_byte(j)) {
		const uint8_t *p = j->p;
		while (p < j->end && *p != '"' && *p != '\\')
			p++;
		size_t n = (size_t)(p - j->p);
		bool is_escaped = p < j->end && *p == '\\', is_over = p < j->end && *p == '"';
		if (half && b && (n || is_over)) {
			put_character(b, 0xfffd);
			half = 0;
		}
		if (b)
			fm_buf_bytes(b, j->p, n);
		j->p = p + (is_escaped || is_over);
		if (is_over)
			return true;
		if (is_escaped && !b && has_byte(j))
			j->p++;
		else if (is_escaped && !take_escape(j, b, &half))
			fm_json_in_fail(j, "the JSON has an escape that does not exist");
		if (b && b->len > MAX_STRING)
			fm_json_in_fail(j, "the JSON has a string that is longer than any profile's");
	}
	fm_json_in_fail(j, "the JSON is cut off inside a string");
	return false;
}

static struct fm_str string_of(const struct fm_buf *b)
{
	return (struct fm_str){ b->data ? (const char *)b->data : "", (uint32_t)b->len };
}

struct fm_str fm_json_in_str(struct fm_json_in *j)
{
	j->text.len = 0;
	if (ahead(j) != '"') {
		fm_json_in_skip(j);
		return (struct fm_str){ "", 0 };
	}
	j->p++;
	if (!take_string(j, &j->text))
		return (struct fm_str){ "", 0 };
	return string_of(&j->text);
}

// ---- Nesting ----

static bool enter(struct fm_json_in *j, uint8_t opener)
{
	if (ahead(j) != opener) {
		fm_json_in_skip(j);
		return false;
	}
	if (j->depth == FM_JSON_IN_MAX_DEPTH) {
		fm_json_in_fail(j, "the JSON is nested deeper than any profile");
		return false;
	}
	uint64_t bit = (uint64_t)1 << (j->depth % 64), *array = &j->is_array[j->depth / 64];
	j->p++;
	j->is_first[j->depth / 64] |= bit;
	*array = opener == '[' ? *array | bit : *array & ~bit;
	j->depth++;
	return true;
}

bool fm_json_in_object(struct fm_json_in *j)
{
	return enter(j, '{');
}

bool fm_json_in_array(struct fm_json_in *j)
{
	return enter(j, '[');
}

// Whether something follows in the innermost one; a comma before the end is let pass, as some
// writers leave it.
static bool next(struct fm_json_in *j, uint8_t closer)
{
	if (!j->depth)
		return false;
	uint64_t bit = (uint64_t)1 << ((j->depth - 1) % 64), *first = &j->is_first[(j->depth - 1) / 64];
	bool is_first = *first & bit;
	*first &= ~bit;
	if (!is_first && !take(j, ',') && ahead(j) != closer) {
		fm_json_in_fail(j, closer == ']' ? "the JSON should go on with , or ] here"
						 : "the JSON should go on with , or } here");
		return false;
	}
	if (!take(j, closer))
		return !j->error;
	j->depth--;
	return false;
}

bool fm_json_in_item(struct fm_json_in *j)
{
	return next(j, ']');
}

bool fm_json_in_key(struct fm_json_in *j, struct fm_str *ret)
{
	if (!next(j, '}'))
		return false;
	j->key.len = 0;
	if (!take(j, '"'))
		fm_json_in_fail(j, "the JSON should have a name in quotes here");
	else if (take_string(j, &j->key) && !take(j, ':'))
		fm_json_in_fail(j, "the JSON should have a : here");
	*ret = string_of(&j->key);
	return !j->error;
}

void fm_json_in_leave(struct fm_json_in *j)
{
	unsigned at = j->depth - 1;
	struct fm_str key;
	if (!j->depth)
		return;
	while (j->is_array[at / 64] >> (at % 64) & 1 ? fm_json_in_item(j) : fm_json_in_key(j, &key))
		fm_json_in_skip(j);
}

static void skip_word(struct fm_json_in *j)
{
	size_t n = 0;
	for (; has_byte(j) && !is_space(*j->p) && !strchr(",]}:\"[{", *j->p) && *j->p; n++)
		j->p++;
	if (!n)
		fm_json_in_fail(j, "the JSON should have a value here");
}

void fm_json_in_skip(struct fm_json_in *j)
{
	uint64_t depth = 0;
	do {
		uint8_t c = ahead(j);
		if (c == '{' || c == '[')
			depth++;
		if (depth && (c == '}' || c == ']'))
			depth--;
		else if (c == '"') {
			j->p++;
			take_string(j, NULL);
			continue;
		} else if (!(c == '{' || c == '[' || (depth && (c == ',' || c == ':')))) {
			skip_word(j);
			continue;
		}
		j->p += !j->error;
	} while (depth && !j->error);
}

// ---- Numbers ----

// The characters of a number. 0 = it is none, and was passed over.
static size_t take_digits(struct fm_json_in *j, char digits[static MAX_DIGITS])
{
	size_t n = 0;
	if (fm_json_in_kind(j) != '0') {
		fm_json_in_skip(j);
		return 0;
	}
	for (; has_byte(j) && *j->p && strchr("+-.eE0123456789", *j->p); j->p++)
		if (n + 1 < MAX_DIGITS)
			digits[n++] = (char)*j->p;
	digits[n] = 0;
	return n;
}

double fm_json_in_real(struct fm_json_in *j)
{
	char digits[MAX_DIGITS], *end;
	if (!take_digits(j, digits))
		return 0;
	double value = strtod(digits, &end);
	if (*end)
		fm_json_in_fail(j, "the JSON has a malformed number");
	return isfinite(value) ? value : 0;
}

int64_t fm_json_in_int_or(struct fm_json_in *j, int64_t none)
{
	char digits[MAX_DIGITS], *end;
	if (!take_digits(j, digits))
		return none;
	int64_t value = strtoll(digits, &end, 10);
	if (!*end)
		return value;
	double real = strtod(digits, &end);
	if (*end)
		fm_json_in_fail(j, "the JSON has a malformed number");
	return real >= 9e18 ? INT64_MAX : real <= -9e18 ? INT64_MIN : real == real ? llround(real) : none;
}

int64_t fm_json_in_int(struct fm_json_in *j)
{
	return fm_json_in_int_or(j, 0);
}

bool fm_json_in_bool(struct fm_json_in *j)
{
	bool is_true = ahead(j) == 't';
	fm_json_in_skip(j);
	return is_true;
}
