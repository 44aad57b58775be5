// SPDX-License-Identifier: Apache-2.0
#include "render/shared/markdown.h"

#include "base/utf8.h"

#define CUT "..."
#define MAX_TICKS 2 // in a row, in code; a fence of one more holds them

struct char_at {
	uint32_t c;
	bool is_first, is_in_word; // in_word: between two letters or digits
};

typedef void put_fn(struct fm_buf *b, const struct char_at *at);

static bool is_word(char c)
{
	return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || (c & 0x80);
}

static void put_text(struct fm_buf *b, const struct char_at *at)
{
	uint32_t c = at->c;
	// A tag stays one behind a backslash for whoever takes the backslash away; a name is called
	// behind one all the same, but not with an invisible character in between.
	if (c == '<' || c == '>' || c == '&')
		fm_buf_str(b, c == '<' ? "&lt;" : c == '>' ? "&gt;" : "&amp;");
	else if (c == '@')
		fm_buf_str(b, "@\xe2\x80\x8b");
	else if ((c < 0x80 && strchr("\\`*[]#|~$", (int)c)) || (c == '_' && !at->is_in_word) ||
		 (at->is_first && (c == '-' || c == '+' || c == '=')))
		fm_buf_printf(b, "\\%c", (char)c);
	else
		fm_utf8_put(b, c);
}

static void put_as_it_is(struct fm_buf *b, const struct char_at *at)
{
	fm_utf8_put(b, at->c);
}

static void put_cell(struct fm_buf *b, const struct char_at *at)
{
	fm_buf_str(b, at->c == '|' ? "\\" : ""); // the one thing that a table takes out of code
	fm_utf8_put(b, at->c);
}

static void put(struct fm_buf *b, struct fm_str s, size_t max_bytes, put_fn *put_char)
{
	const char *p = s.p, *end = s.p + s.len;
	size_t begin = b->len, room_for_cut = begin;
	fm_buf_reserve(b, 0);
	while (p < end) {
		const char *from = p;
		struct char_at at = { fm_utf8_next(&p, end), from == s.p,
				      from > s.p && is_word(from[-1]) && p < end && is_word(*p) };
		if (fm_utf8_is_unfit(at.c))
			at.c = at.c == '\t' ? ' ' : '?';
		put_char(b, &at);
		if (b->len - begin > max_bytes) {
			b->len = room_for_cut;
			fm_buf_str(b, CUT);
			return;
		}
		if (b->len - begin + strlen(CUT) <= max_bytes)
			room_for_cut = b->len;
	}
}

void fm_markdown_text(struct fm_buf *b, struct fm_str s, size_t max_bytes)
{
	put(b, s, max_bytes, put_text);
}

void fm_markdown_line(struct fm_buf *b, struct fm_str s, size_t max_bytes)
{
	put(b, s, max_bytes, put_as_it_is);
}

// Longer runs of backticks than a source line ever needs become apostrophes.
static void put_span(struct fm_buf *b, struct fm_str s, size_t max_bytes, put_fn *put_char)
{
	static const char fence[] = "``` ";
	struct fm_buf inner = { 0 };
	unsigned run = 0, longest = 0;
	put(&inner, s, max_bytes > 2 * (sizeof(fence) - 1) ? max_bytes - 2 * (sizeof(fence) - 1) : 0, put_char);
	for (size_t i = 0; i < inner.len; i++) {
		run = inner.data[i] == '`' ? run + 1 : 0;
		longest = FM_MAX(longest, run);
	}
	for (size_t i = 0; longest > MAX_TICKS && i < inner.len; i++)
		if (inner.data[i] == '`')
			inner.data[i] = '\'';
	longest = longest > MAX_TICKS ? 0 : longest;
	if (inner.len) {
		fm_buf_bytes(b, fence, longest + 1);
		fm_buf_str(b, longest ? " " : "");
		fm_buf_bytes(b, inner.data, inner.len);
		fm_buf_str(b, longest ? " " : "");
		fm_buf_bytes(b, fence, longest + 1);
	}
	fm_buf_deinit(&inner);
}

void fm_markdown_code(struct fm_buf *b, struct fm_str s, size_t max_bytes)
{
	put_span(b, s, max_bytes, put_as_it_is);
}

void fm_markdown_cell(struct fm_buf *b, struct fm_str s, size_t max_bytes)
{
	put_span(b, s, max_bytes, put_cell);
}

void fm_markdown_titles(struct fm_buf *b, const char *const *titles, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(titles[i]);
		bool is_right = len && titles[i][len - 1] == ':';
		fm_buf_printf(b, "| %.*s ", (int)(len - is_right), titles[i]);
	}
	fm_buf_str(b, "|\n");
	for (size_t i = 0; i < n; i++)
		fm_buf_str(b, *titles[i] && titles[i][strlen(titles[i]) - 1] == ':' ? "|--:" : "|---");
	fm_buf_str(b, "|\n");
}

bool fm_markdown_add(struct fm_buf *document, struct fm_buf *piece, size_t limit)
{
	bool fits = document->len + piece->len <= limit;
	if (fits)
		fm_buf_bytes(document, piece->data, piece->len);
	fm_buf_deinit(piece);
	return fits;
}
