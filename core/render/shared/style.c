// SPDX-License-Identifier: Apache-2.0
#include "render/shared/style.h"

#include <inttypes.h>
#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/utf8.h"

#define DEFAULT_WIDTH 100
#define MIN_WIDTH 60  // narrower, tables stop making sense: the terminal wraps
#define MAX_WIDTH 200 // wider, the eye loses the row

static bool locale_is_utf8(void)
{
	locale_t locale = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
	if (!locale)
		return false;
	bool is_utf8 = !strcmp(nl_langinfo_l(CODESET, locale), "UTF-8");
	freelocale(locale);
	return is_utf8;
}

void fm_style_init(struct fm_style *s, FILE *out, const struct fm_view_options *options)
{
	*s = (struct fm_style){ .out = out, .width = DEFAULT_WIDTH };
	int fd = fileno(out);
	bool is_terminal = fd >= 0 && isatty(fd);
	struct winsize size;
	if (options->width)
		s->width = options->width;
	else if (is_terminal && !ioctl(fd, TIOCGWINSZ, &size) && size.ws_col)
		s->width = FM_MIN(size.ws_col, MAX_WIDTH);
	s->width = FM_MAX(s->width, MIN_WIDTH);
	const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
	bool may_color = is_terminal && !(no_color && *no_color) && !(term && !strcmp(term, "dumb"));
	s->has_color = options->color < 0 ? may_color : options->color;
	s->has_utf8 = options->utf8 < 0 ? locale_is_utf8() : options->utf8;
}

void fm_style_paint(const struct fm_style *s, enum fm_paint paint)
{
	static const char *const codes[] = { "0", "1", "2", "34", "33", "31", "32", "35", "36" };
	if (s->has_color)
		fprintf(s->out, "\033[%sm", codes[paint]);
}

static uint32_t shown(const struct fm_style *s, uint32_t c)
{
	if (c == '\t')
		return ' ';
	return fm_utf8_is_unfit(c) || (c >= 0x80 && !s->has_utf8) ? '?' : c;
}

unsigned fm_style_cells(struct fm_str text)
{
	unsigned cells = 0;
	for (const char *p = text.p, *end = text.p + text.len; p < end;) {
		uint32_t c = fm_utf8_next(&p, end);
		cells += fm_utf8_is_unfit(c) ? 1 : fm_utf8_width(c); // shown as one character
	}
	return cells;
}

void fm_style_fit(const struct fm_style *s, struct fm_str text, unsigned cells, bool is_padded)
{
	struct fm_buf b = { 0 };
	unsigned all = fm_style_cells(text), dots = s->has_utf8 ? 1 : 2, used = 0;
	unsigned room = all <= cells ? cells : cells > dots ? cells - dots : 0;
	const char *p = text.p, *end = text.p + text.len;
	while (p < end) {
		uint32_t c = shown(s, fm_utf8_next(&p, end));
		if (used + fm_utf8_width(c) > room)
			break;
		used += fm_utf8_width(c);
		fm_utf8_put(&b, c);
	}
	if (all > cells) {
		fm_buf_str(&b, s->has_utf8 ? "…" : "..");
		used += dots;
	}
	if (b.len)
		fwrite(b.data, 1, b.len, s->out);
	if (is_padded && used < cells)
		fprintf(s->out, "%*s", (int)(cells - used), "");
	fm_buf_deinit(&b);
}

void fm_style_fit_end(const struct fm_style *s, struct fm_str text, unsigned cells)
{
	unsigned all = fm_style_cells(text), dots = s->has_utf8 ? 1 : 2;
	const char *p = text.p, *end = text.p + text.len;
	if (all > cells) {
		fputs(s->has_utf8 ? "…" : "..", s->out);
		for (unsigned skipped = 0; skipped < all - cells + dots && p < end;) {
			uint32_t c = fm_utf8_next(&p, end);
			skipped += fm_utf8_is_unfit(c) ? 1 : fm_utf8_width(c);
		}
	}
	fm_style_fit(s, (struct fm_str){ p, (uint32_t)(end - p) }, cells, false);
}

void fm_style_wrap(const struct fm_style *s, struct fm_str text, unsigned at, unsigned indent)
{
	const char *p = text.p, *end = text.p + text.len;
	for (bool is_first = true; p < end;) {
		const char *space = memchr(p, ' ', (size_t)(end - p));
		struct fm_str word = { p, (uint32_t)((space ? space : end) - p) };
		unsigned cells = fm_style_cells(word);
		if (!is_first && at + 1 + cells > s->width) {
			fprintf(s->out, "\n%*s", (int)indent, "");
			at = indent;
			is_first = true;
		}
		if (!is_first)
			fputc(' ', s->out);
		fm_style_fit(s, word, cells, false);
		at += cells + !is_first;
		is_first = false;
		p = space ? space + 1 : end;
	}
	fputc('\n', s->out);
}

void fm_style_repeat(const struct fm_style *s, const char *piece, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		fputs(piece, s->out);
}

const char *fm_style_count(uint64_t n, char text[static 32])
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%" PRIu64, n), at = 0;
	for (int i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			text[at++] = ',';
		text[at++] = digits[i];
	}
	text[at] = 0;
	return text;
}

const char *fm_style_bytes(uint64_t bytes, char text[static 32])
{
	double mb = (double)bytes / 1e6;
	if (mb >= 1e3)
		snprintf(text, 32, "%.2f GB", mb / 1e3);
	else if (mb >= 1)
		snprintf(text, 32, mb >= 9.95 ? "%.0f MB" : "%.1f MB", mb);
	else
		snprintf(text, 32, "%.0f kB", mb * 1e3);
	return text;
}

const char *fm_style_short_bytes(uint64_t bytes, char text[static 32])
{
	double value = (double)bytes / 1e3;
	const char *unit = "kMGTPE";
	for (; value >= 999.5 && unit[1]; unit++)
		value /= 1e3;
	snprintf(text, 32, value >= 9.95 || !bytes ? "%.0f%c" : "%.1f%c", value, *unit);
	return text;
}

void fm_style_sparkline(const struct fm_style *s, struct fm_buf *b, const uint64_t *values, size_t n, size_t cells)
{
	static const char *const blocks[] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
	static const char *const letters[] = { "_", ".", "-", "=", "+", "*", "#", "@" };
	uint64_t most = 0;
	for (size_t i = 0; i < n; i++)
		most = FM_MAX(most, values[i]);
	for (size_t c = 0; c < FM_MIN(cells, n); c++) {
		size_t first = c * n / FM_MIN(cells, n), end = (c + 1) * n / FM_MIN(cells, n);
		uint64_t high = 0;
		for (size_t i = first; i < end; i++)
			high = FM_MAX(high, values[i]);
		unsigned level = most ? (unsigned)((double)high / (double)most * 7.0 + 0.5) : 0;
		fm_buf_str(b, (s->has_utf8 ? blocks : letters)[level]);
	}
}
