// SPDX-License-Identifier: Apache-2.0
// Rows for people: columns side by side, as wide as what is in them; text is cut where the width
// ends. Where not even that fits, a line for each cell. Widths are those of the first page.
#include "render/query/rows.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/json.h"

#define GAP 2
#define MIN_TEXT_CELLS 12 // narrower, a name says nothing any more
#define MAX_DECIMALS 9

// A page is laid out once its numbers have as many decimals as the largest of a column needs: three
// digits after the first one that is not 0, and milliseconds where that is a second or more.
static unsigned decimals_of(const struct fm_rows *r, unsigned column)
{
	double most = 0;
	for (size_t i = column; i < r->cells.n; i += r->n_columns)
		if (r->cells.items[i].kind == FM_VALUE_REAL && isfinite(r->cells.items[i].real))
			most = fmax(most, fabs(r->cells.items[i].real));
	if (most >= 1 || most <= 0)
		return 3;
	return (unsigned)fmin(MAX_DECIMALS, 3 + ceil(-log10(most)));
}

static struct fm_str text_of(const struct fm_rows *r, unsigned column, const struct fm_value *cell,
			     char ret[static FM_REAL_TEXT])
{
	switch (cell->kind) {
	case FM_VALUE_TEXT:
		return cell->text;
	case FM_VALUE_INTEGER:
		snprintf(ret, FM_REAL_TEXT, "%" PRId64, cell->integer);
		return fm_str_of(ret);
	case FM_VALUE_REAL:
		if (r->is_upright) // below other columns' figures, not below its own
			fm_real_text(cell->real, ret);
		else
			snprintf(ret, FM_REAL_TEXT, "%.*f", (int)r->columns[column].decimals, cell->real);
		return fm_str_of(ret);
	default:
		return (struct fm_str){ "", 0 };
	}
}

static void lay_out(struct fm_rows *r)
{
	char text[FM_REAL_TEXT];
	for (unsigned c = 0; c < r->n_columns; c++) {
		struct fm_rows_column *column = &r->columns[c];
		column->decimals = decimals_of(r, c);
		column->width = fm_style_cells(fm_str_of(column->name));
		bool has_text = false, has_number = false;
		for (size_t i = c; i < r->cells.n; i += r->n_columns) {
			const struct fm_value *cell = &r->cells.items[i];
			has_text |= cell->kind == FM_VALUE_TEXT;
			has_number |= cell->kind == FM_VALUE_INTEGER || cell->kind == FM_VALUE_REAL;
			column->width = FM_MAX(column->width, fm_style_cells(text_of(r, c, cell, text)));
		}
		column->is_number = has_number && !has_text;
	}
}

static unsigned least_width(const struct fm_rows_column *column)
{
	return column->is_number ? column->width : FM_MIN(column->width, MIN_TEXT_CELLS);
}

static unsigned sum_of_widths(const struct fm_rows *r, unsigned most)
{
	unsigned sum = r->n_columns ? (r->n_columns - 1) * GAP : 0;
	for (unsigned c = 0; c < r->n_columns; c++) {
		unsigned least = least_width(&r->columns[c]);
		sum += FM_MAX(least, FM_MIN(r->columns[c].width, most));
	}
	return sum;
}

// Text columns are cut to one width, the largest at which all of it fits.
static void fit(struct fm_rows *r)
{
	unsigned low = 0, high = r->style.width;
	if (sum_of_widths(r, 0) > r->style.width) {
		r->is_upright = true;
		return;
	}
	while (low < high) {
		unsigned middle = low + (high - low + 1) / 2;
		if (sum_of_widths(r, middle) <= r->style.width)
			low = middle;
		else
			high = middle - 1;
	}
	for (unsigned c = 0; c < r->n_columns; c++) {
		unsigned least = least_width(&r->columns[c]);
		r->columns[c].width = FM_MAX(least, FM_MIN(r->columns[c].width, low));
	}
}

// Of a path and of a stack the end says more.
static bool ends_best(const struct fm_rows_column *column)
{
	return !strcmp(column->name, "file") || !strcmp(column->name, "path") || !strcmp(column->name, "stack");
}

static void put_cell(const struct fm_rows *r, unsigned column, struct fm_str text, bool is_last)
{
	const struct fm_rows_column *c = &r->columns[column];
	unsigned cells = fm_style_cells(text);
	if (c->is_number && cells < c->width)
		fprintf(r->out, "%*s", (int)(c->width - cells), "");
	if (ends_best(c) && cells > c->width)
		fm_style_fit_end(&r->style, text, c->width);
	else
		fm_style_fit(&r->style, text, c->width, !is_last && !c->is_number);
	fputs(is_last ? "\n" : "  ", r->out);
}

static void put_head(const struct fm_rows *r)
{
	fm_style_paint(&r->style, FM_PAINT_BOLD);
	for (unsigned c = 0; c < r->n_columns; c++)
		put_cell(r, c, fm_str_of(r->columns[c].name), c + 1 == r->n_columns);
	fm_style_paint(&r->style, FM_PAINT_NONE);
	for (unsigned c = 0; c < r->n_columns; c++) {
		fm_style_repeat(&r->style, "-", r->columns[c].width);
		fputs(c + 1 == r->n_columns ? "\n" : "  ", r->out);
	}
}

static void put_upright(const struct fm_rows *r)
{
	char text[FM_REAL_TEXT];
	unsigned widest = 0;
	for (unsigned c = 0; c < r->n_columns; c++)
		widest = FM_MAX(widest, fm_style_cells(fm_str_of(r->columns[c].name)));
	widest = FM_MIN(widest, r->style.width / 2);
	for (size_t i = 0; i < r->cells.n; i++) {
		unsigned c = (unsigned)(i % r->n_columns);
		if (!c)
			fprintf(r->out, "%srow %" PRIu64 "\n", i || r->n_pages ? "\n" : "",
				r->n_written + i / r->n_columns + 1);
		fputs("  ", r->out);
		fm_style_fit(&r->style, fm_str_of(r->columns[c].name), widest, true);
		fputs("  ", r->out);
		struct fm_str shown = text_of(r, c, &r->cells.items[i], text);
		unsigned room = r->style.width - widest - 4;
		if (ends_best(&r->columns[c]) && fm_style_cells(shown) > room)
			fm_style_fit_end(&r->style, shown, room);
		else
			fm_style_fit(&r->style, shown, room, false);
		fputc('\n', r->out);
	}
}

void fm_rows_table(struct fm_rows *r)
{
	if (!r->n_pages) {
		lay_out(r);
		fit(r);
		if (!r->is_upright)
			put_head(r);
	}
	if (r->is_upright) {
		put_upright(r);
		return;
	}
	char text[FM_REAL_TEXT];
	for (size_t i = 0; i < r->cells.n; i++) {
		unsigned c = (unsigned)(i % r->n_columns);
		put_cell(r, c, text_of(r, c, &r->cells.items[i], text), c + 1 == r->n_columns);
	}
}
