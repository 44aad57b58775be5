// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <inttypes.h>
#include <math.h>

#include "base/utf8.h"

void fm_json_init(struct fm_json *j, FILE *out)
{
	*j = (struct fm_json){ .out = out };
}

void fm_json_escape(FILE *out, struct fm_str s)
{
	putc_unlocked('"', out);
	const char *p = s.len ? s.p : "", *end = p + s.len; // an empty string may point nowhere
	while (p < end) {
		// Runs of plain ASCII, nearly everything there is, go out in one piece.
		const char *plain = p;
		while (p < end && (uint8_t)*p >= 0x20 && (uint8_t)*p < 0x7f && *p != '"' && *p != '\\')
			p++;
		fwrite_unlocked(plain, 1, (size_t)(p - plain), out);
		if (p == end)
			break;
		const char *start = p;
		uint32_t c = fm_utf8_next(&p, end);
		if (c == '"' || c == '\\')
			fprintf(out, "\\%c", (char)c);
		else if (c == '\n')
			fputs("\\n", out);
		else if (c == '\t')
			fputs("\\t", out);
		else if (fm_utf8_is_unfit(c) || (c == FM_UTF8_BAD && p - start == 1))
			fprintf(out, "\\u%04x", c); // none is beyond ffff
		else
			fwrite_unlocked(start, 1, (size_t)(p - start), out);
	}
	putc_unlocked('"', out);
}

static void begin_value(struct fm_json *j, const char *key)
{
	if (j->has_items[j->depth])
		putc_unlocked(',', j->out);
	if (j->is_newline_due)
		putc_unlocked('\n', j->out);
	j->is_newline_due = false;
	j->has_items[j->depth] = true;
	if (key) {
		fm_json_escape(j->out, fm_str_of(key));
		putc_unlocked(':', j->out);
	}
}

static void nest(struct fm_json *j, const char *key, char opener, char closer)
{
	begin_value(j, key);
	if (j->depth == FM_JSON_MAX_DEPTH)
		__builtin_trap(); // our own schemas are far flatter: a missing fm_json_end()
	putc_unlocked(opener, j->out);
	j->closers[j->depth++] = closer;
	j->has_items[j->depth] = false;
}

void fm_json_object(struct fm_json *j, const char *key)
{
	nest(j, key, '{', '}');
}

void fm_json_array(struct fm_json *j, const char *key)
{
	nest(j, key, '[', ']');
}

void fm_json_end(struct fm_json *j)
{
	putc_unlocked(j->closers[--j->depth], j->out);
}

void fm_json_str(struct fm_json *j, const char *key, struct fm_str value)
{
	begin_value(j, key);
	fm_json_escape(j->out, value);
}

void fm_json_u64(struct fm_json *j, const char *key, uint64_t value)
{
	begin_value(j, key);
	fprintf(j->out, "%" PRIu64, value);
}

void fm_json_i64(struct fm_json *j, const char *key, int64_t value)
{
	begin_value(j, key);
	fprintf(j->out, "%" PRId64, value);
}

int fm_real_text(double value, char ret[static FM_REAL_TEXT])
{
	int n = snprintf(ret, FM_REAL_TEXT, "%.9f", value);
	while (n > 0 && ret[n - 1] == '0')
		n--;
	if (n > 0 && ret[n - 1] == '.')
		n--;
	ret[n] = 0;
	return n;
}

void fm_json_real(struct fm_json *j, const char *key, double value)
{
	if (!isfinite(value)) {
		fm_json_null(j, key);
		return;
	}
	begin_value(j, key);
	char text[FM_REAL_TEXT];
	int n = fm_real_text(value, text);
	fwrite_unlocked(text, 1, (size_t)n, j->out);
}

void fm_json_bool(struct fm_json *j, const char *key, bool value)
{
	begin_value(j, key);
	fputs(value ? "true" : "false", j->out);
}

void fm_json_null(struct fm_json *j, const char *key)
{
	begin_value(j, key);
	fputs("null", j->out);
}

void fm_json_newline(struct fm_json *j)
{
	j->is_newline_due = j->depth > 0; // after the comma, which the next value writes
	if (!j->depth)
		putc_unlocked('\n', j->out);
}
