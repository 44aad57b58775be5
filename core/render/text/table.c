// SPDX-License-Identifier: Apache-2.0
#include "render/text/table.h"

#include <stdlib.h>
#include <string.h>

#define LINE_CELLS 7

static const struct column {
	const char *top, *title; // top "" = a dash through the group's head
	unsigned cells, from_width;
	bool is_time_only; // there without memory
} columns[FM_TABLE_N_COLUMNS] = {
	[FM_TABLE_PYTHON] = { "Time", "Python", 7, 0, true },
	[FM_TABLE_NATIVE] = { "", "native", 7, 0, true },
	[FM_TABLE_SYSTEM] = { "", "system", 7, 0, true },
	[FM_TABLE_WAITING] = { "", "waiting", 7, 0, true },
	[FM_TABLE_MEMORY_PYTHON] = { "Memory", "Python", 7, 76, false },
	[FM_TABLE_PEAK] = { "", "peak", 5, 0, false },
	[FM_TABLE_TIMELINE] = { "", "timeline/%", 10, 100, false },
	[FM_TABLE_COPY] = { "Copy", "(MB/s)", 7, 90, false },
};

// The characters of a horizontal line: its first cell, the others, where it meets a bar.
struct rule {
	const char *first, *cell, *cross;
};

void fm_table_init(struct fm_table *t, const struct fm_style *style, unsigned width, bool has_system, bool has_waiting,
		   bool has_memory)
{
	*t = (struct fm_table){ .style = style, .width = width };
	unsigned used = LINE_CELLS + 1;
	for (unsigned c = 0; c < FM_TABLE_N_COLUMNS; c++) {
		t->has[c] = (columns[c].is_time_only || has_memory) && width >= columns[c].from_width &&
			    (c != FM_TABLE_SYSTEM || has_system) && (c != FM_TABLE_WAITING || has_waiting);
		used += t->has[c] ? columns[c].cells + 1 : 0;
	}
	t->source_cells = width > used + 8 ? width - used : 8;
}

static void put_rule(const struct fm_table *t, const struct rule *rule, bool through_source)
{
	const struct fm_style *s = t->style;
	fm_style_paint(s, FM_PAINT_DIM);
	fputs(rule->first, s->out);
	fm_style_repeat(s, rule->cell, LINE_CELLS - 1);
	fputs(rule->cross, s->out);
	for (unsigned c = 0; c < FM_TABLE_N_COLUMNS; c++) {
		if (!t->has[c])
			continue;
		fm_style_repeat(s, rule->cell, columns[c].cells);
		fputs(rule->cross, s->out);
	}
	if (through_source)
		fm_style_repeat(s, rule->cell, t->source_cells);
	fm_style_paint(s, FM_PAINT_NONE);
	fputc('\n', s->out);
}

static void put_bar(const struct fm_table *t)
{
	fm_style_paint(t->style, FM_PAINT_DIM);
	fputs(t->style->has_utf8 ? "│" : "|", t->style->out);
	fm_style_paint(t->style, FM_PAINT_NONE);
}

static void put_titles(const struct fm_table *t, struct fm_str title)
{
	const struct fm_style *s = t->style;
	fputs("       ", s->out);
	put_bar(t);
	for (unsigned c = 0; c < FM_TABLE_N_COLUMNS; c++) {
		if (!t->has[c])
			continue;
		unsigned cells = columns[c].cells, dashes = cells == 7 ? 6 : cells;
		// The first column of a group that there was no room for: the next one is the head
		// then.
		const char *top = c == FM_TABLE_PEAK && !t->has[FM_TABLE_MEMORY_PYTHON] ? "Mem." : columns[c].top;
		if (*top)
			fprintf(s->out, "%-*s", (int)cells, top);
		else
			fm_style_repeat(s, s->has_utf8 ? "–" : "-", dashes), fm_style_repeat(s, " ", cells - dashes);
		put_bar(t);
	}
	fputs("\n  Line ", s->out);
	put_bar(t);
	for (unsigned c = 0; c < FM_TABLE_N_COLUMNS; c++) {
		if (!t->has[c])
			continue;
		fprintf(s->out, "%-*s", (int)columns[c].cells, columns[c].title);
		put_bar(t);
	}
	fm_style_fit_end(s, title, t->source_cells);
	fputc('\n', s->out);
}

void fm_table_head(const struct fm_table *t, struct fm_str title)
{
	bool utf8 = t->style->has_utf8;
	put_rule(t, utf8 ? &(struct rule){ " ", " ", "╷" } : &(struct rule){ " ", " ", "," }, false);
	put_titles(t, title);
	put_rule(t, utf8 ? &(struct rule){ "╺", "━", "┿" } : &(struct rule){ "=", "=", "+" }, true);
}

void fm_table_row(const struct fm_table *t, const struct fm_table_row *row)
{
	const struct fm_style *s = t->style;
	if (row->is_gap)
		fputs("   ... ", s->out);
	else if (row->line)
		fprintf(s->out, "%6u ", row->line);
	else
		fputs("       ", s->out);
	put_bar(t);
	for (unsigned c = 0; c < FM_TABLE_N_COLUMNS; c++) {
		if (!t->has[c])
			continue;
		// Ends a cell before the bar, but for what fills the column.
		struct fm_str text = fm_str_of(row->cells[c]);
		unsigned taken = fm_style_cells(text), cells = columns[c].cells,
			 after = taken >= cells || c == FM_TABLE_TIMELINE ? 0
				 : c == FM_TABLE_MEMORY_PYTHON            ? 2
									  : 1;
		fm_style_repeat(s, " ", cells > taken + after ? cells - taken - after : 0);
		fputs(row->cells[c], s->out);
		fm_style_repeat(s, " ", after);
		put_bar(t);
	}
	fm_style_fit(s, row->text, t->source_cells, false);
	fputc('\n', s->out);
}

void fm_table_divide(const struct fm_table *t)
{
	put_rule(t, t->style->has_utf8 ? &(struct rule){ "╶", "─", "┼" } : &(struct rule){ "-", "-", "+" }, true);
}

void fm_table_foot(const struct fm_table *t)
{
	put_rule(t, t->style->has_utf8 ? &(struct rule){ " ", " ", "╵" } : &(struct rule){ " ", " ", "'" }, false);
}
