// SPDX-License-Identifier: Apache-2.0
#include "base/toml.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

#define MAX_NESTING 64 // of arrays and inline tables; deeper is an attack on the stack, not a configuration

struct toml {
	const char *p, *end;
	unsigned line;
	struct fm_diag *diag;
	struct fm_buf key, text; // of the value at hand
};

static enum fm_err fail(struct toml *t, const char *what)
{
	return fm_diag_set(t->diag, FM_E_CORRUPT, "line %u: %s", t->line, what);
}

static void skip_blanks(struct toml *t)
{
	while (t->p < t->end && (*t->p == ' ' || *t->p == '\t'))
		t->p++;
}

static void skip_comment(struct toml *t)
{
	if (t->p < t->end && *t->p == '#')
		while (t->p < t->end && *t->p != '\n')
			t->p++;
}

// Blanks, comments and line ends, as between statements and inside arrays.
static void skip_space(struct toml *t)
{
	for (;;) {
		skip_blanks(t);
		skip_comment(t);
		if (t->p >= t->end || (*t->p != '\n' && *t->p != '\r'))
			return;
		t->line += *t->p == '\n';
		t->p++;
	}
}

static enum fm_err end_of_line(struct toml *t)
{
	skip_blanks(t);
	skip_comment(t);
	if (t->p < t->end && *t->p == '\r')
		t->p++;
	if (t->p < t->end && *t->p != '\n')
		return fail(t, "something follows a value on its line");
	return FM_OK;
}

static enum fm_err read_escape(struct toml *t)
{
	static const char from[] = "btnfr\"\\", to[] = "\b\t\n\f\r\"\\";
	char c = t->p < t->end ? *t->p++ : 0;
	const char *at = c ? strchr(from, c) : NULL;
	if (at) {
		fm_buf_u8(&t->text, (uint8_t)to[at - from]);
		return FM_OK;
	}
	unsigned n_digits = c == 'u' ? 4 : c == 'U' ? 8 : 0;
	uint32_t code = 0;
	for (unsigned i = 0; i < n_digits; i++) {
		char d = t->p < t->end ? *t->p++ : 0;
		int v = d >= '0' && d <= '9'   ? d - '0'
			: d >= 'a' && d <= 'f' ? d - 'a' + 10
			: d >= 'A' && d <= 'F' ? d - 'A' + 10
					       : -1;
		if (v < 0)
			return fail(t, "a \\u in a string without its digits");
		code = code << 4 | (uint32_t)v;
	}
	if (!n_digits || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
		return fail(t, "an unknown escape in a string");
	fm_utf8_put(&t->text, code);
	return FM_OK;
}

// "basic" and 'literal' strings, and both with three quotes over several lines. p is at the quote.
static enum fm_err read_string(struct toml *t)
{
	char quote = *t->p;
	bool is_long = t->end - t->p >= 3 && t->p[1] == quote && t->p[2] == quote;
	unsigned begin = t->line;
	t->p += is_long ? 3 : 1;
	t->text.len = 0;
	fm_buf_reserve(&t->text, 1);
	if (is_long && t->p < t->end && *t->p == '\n')
		t->p++, t->line++;
	while (t->p < t->end) {
		char c = *t->p;
		if (c == quote && (!is_long || (t->end - t->p >= 3 && t->p[1] == quote && t->p[2] == quote))) {
			t->p += is_long ? 3 : 1;
			// Up to two quotes may stand before the closing three.
			for (int i = 0; is_long && i < 2 && t->p < t->end && *t->p == quote; i++, t->p++)
				fm_buf_u8(&t->text, (uint8_t)quote);
			return FM_OK;
		}
		if (c == '\n' && !is_long)
			break;
		t->p++;
		t->line += c == '\n';
		if (c != '\\' || quote == '\'') {
			fm_buf_u8(&t->text, (uint8_t)c);
			continue;
		}
		if (is_long && t->p < t->end && strchr(" \t\r\n", *t->p)) { // the line goes on below
			while (t->p < t->end && strchr(" \t\r\n", *t->p) && *t->p)
				t->line += *t->p++ == '\n';
			continue;
		}
		enum fm_err err = read_escape(t);
		if (err)
			return err;
	}
	t->line = begin;
	return fail(t, "a string without its closing quote");
}

static bool is_bare(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

// A dotted key into t->key, its parts joined by dots.
static enum fm_err read_key(struct toml *t)
{
	t->key.len = 0;
	for (;;) {
		skip_blanks(t);
		const char *begin = t->p;
		if (t->p < t->end && (*t->p == '"' || *t->p == '\'')) {
			enum fm_err err = read_string(t);
			if (err)
				return err;
			fm_buf_bytes(&t->key, t->text.data, t->text.len);
		} else {
			while (t->p < t->end && is_bare(*t->p))
				t->p++;
			if (t->p == begin)
				return fail(t, "a key was expected here");
			fm_buf_bytes(&t->key, begin, (size_t)(t->p - begin));
		}
		skip_blanks(t);
		if (t->p >= t->end || *t->p != '.')
			return FM_OK;
		t->p++;
		fm_buf_u8(&t->key, '.');
	}
}

static enum fm_err skip_value(struct toml *t, unsigned depth);

// [1, "two", [3]] or { a = 1, b = 2 }
static enum fm_err skip_list(struct toml *t, unsigned depth)
{
	char close = *t->p == '[' ? ']' : '}';
	if (depth >= MAX_NESTING)
		return fail(t, "arrays are nested too deeply");
	t->p++;
	for (;;) {
		skip_space(t);
		if (t->p < t->end && *t->p == close) {
			t->p++;
			return FM_OK;
		}
		if (close == '}') {
			enum fm_err err = read_key(t);
			if (err)
				return err;
			if (t->p >= t->end || *t->p++ != '=')
				return fail(t, "'=' was expected after a key");
			skip_blanks(t);
		}
		enum fm_err err = skip_value(t, depth + 1);
		if (err)
			return err;
		skip_space(t);
		if (t->p < t->end && *t->p == ',')
			t->p++;
		else if (t->p >= t->end || *t->p != close)
			return fail(t, close == ']' ? "an array without its ']'" : "an inline table without its '}'");
	}
}

static enum fm_err skip_value(struct toml *t, unsigned depth)
{
	if (t->p >= t->end)
		return fail(t, "a value was expected here");
	if (*t->p == '"' || *t->p == '\'')
		return read_string(t);
	if (*t->p == '[' || *t->p == '{')
		return skip_list(t, depth);
	const char *begin = t->p;
	while (t->p < t->end && !strchr(",]}# \t\r\n", *t->p))
		t->p++;
	return t->p == begin ? fail(t, "a value was expected here") : FM_OK;
}

static enum fm_err read_value(struct toml *t, struct fm_toml_value *ret)
{
	skip_blanks(t);
	ret->line = t->line;
	const char *begin = t->p;
	enum fm_err err = skip_value(t, 0);
	if (err)
		return err;
	ret->text = (struct fm_str){ begin, (uint32_t)(t->p - begin) };
	if (*begin == '"' || *begin == '\'') {
		ret->kind = FM_TOML_STRING;
		ret->text = (struct fm_str){ (const char *)t->text.data, (uint32_t)t->text.len };
	} else if (fm_str_eq(ret->text, FM_STR_LIT("true")) || fm_str_eq(ret->text, FM_STR_LIT("false"))) {
		ret->kind = FM_TOML_BOOL;
	} else {
		ret->kind = FM_TOML_NUMBER;
		for (uint32_t i = 0; i < ret->text.len; i++)
			if (!strchr("0123456789.+-_eE", ret->text.p[i]) || !ret->text.p[i])
				ret->kind = FM_TOML_OTHER;
	}
	return end_of_line(t);
}

// What follows "table." in the whole key, or "" with the key itself being another one.
static struct fm_str inside(const struct fm_buf *key, const char *table)
{
	size_t n = strlen(table);
	if (key->len <= n + 1 || memcmp(key->data, table, n) || key->data[n] != '.')
		return FM_STR_LIT("");
	return (struct fm_str){ (const char *)key->data + n + 1, (uint32_t)(key->len - n - 1) };
}

static enum fm_err read_all(struct toml *t, const char *table, struct fm_buf *prefix, struct fm_buf *key,
			    enum fm_err (*each)(void *, const struct fm_toml_value *, struct fm_diag *), void *ctx)
{
	enum fm_err err;
	for (skip_space(t); t->p < t->end; skip_space(t)) {
		if (*t->p == '[') {
			unsigned n = t->end - t->p > 1 && t->p[1] == '[' ? 2 : 1; // [[name]] is an item of an array
			t->p += n;
			if ((err = read_key(t)))
				return err;
			if (t->end - t->p < n || *t->p != ']' || t->p[n - 1] != ']')
				return fail(t, "a table's name without its ']'");
			t->p += n;
			prefix->len = 0;
			fm_buf_bytes(prefix, t->key.data, t->key.len);
			fm_buf_u8(prefix,
				  n == 2 ? '[' : '.'); // so that nothing in an array's item is taken for the table
			if ((err = end_of_line(t)))
				return err;
			continue;
		}
		if ((err = read_key(t)))
			return err;
		if (t->p >= t->end || *t->p++ != '=')
			return fail(t, "'=' was expected after a key");
		key->len = 0;
		fm_buf_bytes(key, prefix->data, prefix->len);
		fm_buf_bytes(key, t->key.data, t->key.len);
		struct fm_toml_value value = { .key = inside(key, table) };
		if ((err = read_value(t, &value)))
			return err;
		if (value.key.len && (err = each(ctx, &value, t->diag)))
			return err;
	}
	return FM_OK;
}

enum fm_err fm_toml_read(struct fm_str text, const char *table,
			 enum fm_err (*each)(void *ctx, const struct fm_toml_value *value, struct fm_diag *diag),
			 void *ctx, struct fm_diag *diag)
{
	struct toml t = { .p = text.p, .end = text.p + text.len, .line = 1, .diag = diag };
	struct fm_buf prefix = { 0 }, key = { 0 };
	if (text.len >= 3 && !memcmp(text.p, "\xef\xbb\xbf", 3))
		t.p += 3;
	enum fm_err err = read_all(&t, table, &prefix, &key, each, ctx);
	fm_buf_deinit(&prefix);
	fm_buf_deinit(&key);
	fm_buf_deinit(&t.key);
	fm_buf_deinit(&t.text);
	return err;
}

bool fm_toml_strings(struct fm_str text, void (*each)(void *ctx, struct fm_str item), void *ctx)
{
	struct toml t = { .p = text.p, .end = text.p + text.len, .line = 1 };
	bool is_good = text.len && *t.p++ == '[', is_over = false;
	while (is_good && !is_over) {
		skip_space(&t);
		is_over = t.p < t.end && *t.p == ']';
		if (is_over)
			break;
		is_good = t.p < t.end && (*t.p == '"' || *t.p == '\'') && read_string(&t) == FM_OK;
		if (!is_good)
			break;
		each(ctx, (struct fm_str){ (const char *)t.text.data, (uint32_t)t.text.len });
		skip_space(&t);
		is_over = t.p < t.end && *t.p == ']';
		is_good = is_over || (t.p < t.end && *t.p++ == ',');
	}
	fm_buf_deinit(&t.text);
	return is_good;
}
