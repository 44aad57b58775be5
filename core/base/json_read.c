// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"
#include "base/hex.h"
#include "base/utf8_encode.h"

#include <stdlib.h>
#include <string.h>

struct parser {
	struct fm_arena *arena;
	const char *at, *end;
	unsigned depth;
};

static void skip_space(struct parser *p)
{
	while (p->at < p->end && (*p->at == ' ' || *p->at == '\n' || *p->at == '\r' || *p->at == '\t'))
		p->at++;
}

static bool take(struct parser *p, char c)
{
	skip_space(p);
	bool is_there = p->at < p->end && *p->at == c;
	p->at += is_there;
	return is_there;
}

static bool take_word(struct parser *p, const char *word)
{
	size_t len = strlen(word);
	if ((size_t)(p->end - p->at) < len || memcmp(p->at, word, len))
		return false;
	p->at += len;
	return true;
}

static bool take_hex(struct parser *p, uint32_t *ret)
{
	uint32_t value = 0;
	for (int i = 0; i < 4; i++, p->at++) {
		char c = p->at < p->end ? *p->at : 0;
		uint32_t digit = fm_hex_digit(c);
		if (digit == FM_NO_DIGIT)
			return false;
		value = value << 4 | digit;
	}
	*ret = value;
	return true;
}

// After the backslash. Takes no more room than it had in the text.
static bool take_escape(struct parser *p, char **out)
{
	static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
	char c = p->at < p->end ? *p->at++ : 0;
	const char *letter = c ? strchr(letters, c) : NULL;
	uint32_t high, low;
	if (letter) {
		*(*out)++ = meanings[letter - letters];
		return true;
	}
	if (c != 'u' || !take_hex(p, &high))
		return false;
	if (high >= 0xd800 && high < 0xe000) { // half a character: the other half follows, or it is nothing
		const char *before = p->at;
		if (high < 0xdc00 && take_word(p, "\\u") && take_hex(p, &low) && low >= 0xdc00 && low < 0xe000) {
			high = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
		} else {
			p->at = before;
			high = 0xfffd;
		}
	}
	*out += fm_utf8_encode((uint8_t *)*out, high);
	return true;
}

// After the opening quote.
static bool take_string(struct parser *p, struct fm_str *ret)
{
	const char *from = p->at, *end = from;
	while (end < p->end && *end != '"')
		end += *end == '\\' ? 2 : 1;
	if (end >= p->end)
		return false;
	char *text = fm_arena_alloc(p->arena, (size_t)(end - from) + 1), *out = text;
	while (p->at < end) {
		if (*p->at == '\\') {
			p->at++;
			if (!take_escape(p, &out))
				return false;
		} else {
			*out++ = *p->at++;
		}
	}
	if (p->at != end) // an escape that went on beyond the quote
		return false;
	p->at++;
	*ret = (struct fm_str){ text, (uint32_t)(out - text) };
	return true;
}

static bool take_number(struct parser *p, double *ret)
{
	char digits[64];
	size_t n = 0;
	while (p->at < p->end && n + 1 < sizeof(digits) && *p->at && strchr("+-.eE0123456789", *p->at))
		digits[n++] = *p->at++;
	digits[n] = 0;
	char *end;
	*ret = strtod(digits, &end);
	return n && !*end;
}

static bool take_value(struct parser *p, struct fm_json_value *v);

// After the opening bracket.
static bool take_items(struct parser *p, struct fm_json_value *v, char closer)
{
	struct fm_json_value **link = &v->first;
	if (take(p, closer))
		return true;
	do {
		struct fm_json_value *item = fm_arena_alloc(p->arena, sizeof(*item));
		struct fm_str key = FM_STR_LIT("");
		if (closer == '}' && (!take(p, '"') || !take_string(p, &key) || !take(p, ':')))
			return false;
		if (!take_value(p, item))
			return false;
		item->key = key;
		*link = item;
		link = &item->next;
	} while (take(p, ','));
	return take(p, closer);
}

static bool take_value(struct parser *p, struct fm_json_value *v)
{
	*v = (struct fm_json_value){ .text = FM_STR_LIT(""), .key = FM_STR_LIT("") };
	bool is_fine;
	if (p->depth == FM_JSON_READ_DEPTH)
		return false;
	p->depth++;
	if (take(p, '{')) {
		v->kind = FM_JSON_OBJECT;
		is_fine = take_items(p, v, '}');
	} else if (take(p, '[')) {
		v->kind = FM_JSON_ARRAY;
		is_fine = take_items(p, v, ']');
	} else if (take(p, '"')) {
		v->kind = FM_JSON_STRING;
		is_fine = take_string(p, &v->text);
	} else if (take_word(p, "null")) {
		is_fine = true;
	} else if ((v->is_true = take_word(p, "true")) || take_word(p, "false")) {
		v->kind = FM_JSON_BOOL;
		is_fine = true;
	} else {
		v->kind = FM_JSON_NUMBER;
		is_fine = take_number(p, &v->number);
	}
	p->depth--;
	return is_fine;
}

enum fm_err fm_json_parse(struct fm_arena *arena, struct fm_str text, struct fm_json_value **ret)
{
	struct parser p = { arena, text.p, text.p + text.len, 0 };
	struct fm_json_value *root = fm_arena_alloc(arena, sizeof(*root));
	if (!take_value(&p, root))
		return FM_E_CORRUPT;
	skip_space(&p);
	if (p.at != p.end)
		return FM_E_CORRUPT;
	*ret = root;
	return FM_OK;
}

const struct fm_json_value *fm_json_get(const struct fm_json_value *v, const char *key)
{
	static const struct fm_json_value none = { .text = { "", 0 }, .key = { "", 0 } };
	for (const struct fm_json_value *item = v->kind == FM_JSON_OBJECT ? v->first : NULL; item; item = item->next)
		if (fm_str_eq(item->key, fm_str_of(key)))
			return item;
	return &none;
}
