// SPDX-License-Identifier: Apache-2.0
// How the text report is set: width, colour, characters. Every name that reaches a terminal passes
// through here, because names come from files and may hold escape sequences.
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "aggregate/tree/view.h"
#include "base/str.h"

struct fm_style {
	FILE *out;
	unsigned width;
	bool has_color, has_utf8;
};

void fm_style_init(struct fm_style *s, FILE *out, const struct fm_view_options *options);

enum fm_paint {
	FM_PAINT_NONE,
	FM_PAINT_BOLD,
	FM_PAINT_DIM,
	FM_PAINT_BLUE,
	FM_PAINT_YELLOW,
	FM_PAINT_RED,
	FM_PAINT_GREEN,
	FM_PAINT_MAGENTA,
	FM_PAINT_CYAN,
};
void fm_style_paint(const struct fm_style *s, enum fm_paint paint); // FM_PAINT_NONE ends it

// Text cut to `cells` (with an ellipsis) and padded to it when is_padded. Tabs become spaces,
// controls '?'.
void fm_style_fit(const struct fm_style *s, struct fm_str text, unsigned cells, bool is_padded);
// The same, keeping the end: for paths.
void fm_style_fit_end(const struct fm_style *s, struct fm_str text, unsigned cells);
unsigned fm_style_cells(struct fm_str text);

// Words wrapped at the width; the first line begins at column `at`, the others at `indent`. Ends
// the line.
void fm_style_wrap(const struct fm_style *s, struct fm_str text, unsigned at, unsigned indent);
void fm_style_repeat(const struct fm_style *s, const char *piece, unsigned n);
// "12,345"
const char *fm_style_count(uint64_t n, char text[static 32]);
// "10 MB", "1.5 MB", "2.00 GB"; 1 MB is a million bytes
const char *fm_style_bytes(uint64_t bytes, char text[static 32]);
// The same in four characters: "10M", "1.5M"
const char *fm_style_short_bytes(uint64_t bytes, char text[static 32]);
// n values in at most `cells` characters; each shows the highest of those it stands for, relative
// to the highest of all.
void fm_style_sparkline(const struct fm_style *s, struct fm_buf *b, const uint64_t *values, size_t n, size_t cells);
