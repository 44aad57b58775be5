// SPDX-License-Identifier: Apache-2.0
// Markdown that stays short, for pull requests, job summaries and coding agents: text, code and
// tables, each piece with a limit in bytes.
//
// Names, paths and source lines come from files. Whatever they hold, it means nothing here: it ends
// no cell of a table and no code, calls nobody by an @, and is no HTML.
//
//	static const char *const titles[] = { "share:", "line" };
//	fm_markdown_titles(&b, titles, FM_ARRAY_LEN(titles));
//	fm_buf_printf(&b, "| %.1f%% | ", share);
//	fm_markdown_cell(&b, source, 100);
//	fm_buf_str(&b, " |\n");
#pragma once

#include <stdbool.h>

#include "base/str.h"

// Each writes one line without its end, of at most `max_bytes`; "..." stands for what had
// no room.
void fm_markdown_text(struct fm_buf *b, struct fm_str s, size_t max_bytes);
void fm_markdown_code(struct fm_buf *b, struct fm_str s, size_t max_bytes); // a span, outside of tables
void fm_markdown_cell(struct fm_buf *b, struct fm_str s, size_t max_bytes); // a span within a table
// Within a fenced block, where something else (a number) begins the line.
void fm_markdown_line(struct fm_buf *b, struct fm_str s, size_t max_bytes);

// The first two lines of a table. A title with a colon at its end is of figures, set to the right.
void fm_markdown_titles(struct fm_buf *b, const char *const *titles, size_t n);

// Moves the piece to the end of the document, if it still fits into `limit` bytes there. False: it
// does not, and is dropped.
bool fm_markdown_add(struct fm_buf *document, struct fm_buf *piece, size_t limit);
