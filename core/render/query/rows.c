// SPDX-License-Identifier: Apache-2.0
#include "render/query/rows.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/json.h"
#include "render/shared/csv.h"
#include "render/shared/markdown.h"

void fm_rows_init(struct fm_rows *r, enum fm_rows_format format, FILE *out, const struct fm_view_options *view,
		  unsigned n_columns)
{
	*r = (struct fm_rows){ .format = format, .out = out, .n_columns = n_columns };
	fm_style_init(&r->style, out, view);
	r->columns = fm_alloc((n_columns + 1) * sizeof(*r->columns));
	fm_arena_init(&r->arena);
}

void fm_rows_deinit(struct fm_rows *r)
{
	for (unsigned c = 0; c < r->n_columns; c++)
		free(r->columns[c].name);
	free(r->columns);
	fm_vec_deinit(&r->cells);
	fm_arena_deinit(&r->arena);
}

void fm_rows_name(struct fm_rows *r, unsigned column, const char *name, const char *type)
{
	r->columns[column].name = fm_strdup_n(name, strlen(name));
	r->columns[column].type = type;
}

void fm_rows_put(struct fm_rows *r, struct fm_value cell)
{
	if (cell.kind == FM_VALUE_TEXT) {
		cell.text.p = fm_arena_strdup(&r->arena, cell.text.p, cell.text.len);
		r->n_text_bytes += cell.text.len;
	}
	fm_vec_push(&r->cells, cell);
}

// ---- JSON ----

// A real number stays one for whoever reads it: "2.0".
static void json_real(FILE *out, double value)
{
	char text[FM_REAL_TEXT];
	if (!isfinite(value)) {
		fputs("null", out);
		return;
	}
	fm_real_text(value, text);
	fprintf(out, "%s%s", text, strchr(text, '.') ? "" : ".0");
}

static void json_cell(FILE *out, const struct fm_value *cell)
{
	switch (cell->kind) {
	case FM_VALUE_INTEGER:
		fprintf(out, "%" PRId64, cell->integer);
		break;
	case FM_VALUE_REAL:
		json_real(out, cell->real);
		break;
	case FM_VALUE_TEXT:
		fm_json_escape(out, cell->text);
		break;
	default:
		fputs("null", out);
	}
}

static void json_head(const struct fm_rows *r)
{
	struct fm_json j;
	fputs("{\"schema\":\"fathom.query/1\",\"columns\":", r->out);
	fm_json_init(&j, r->out);
	fm_json_array(&j, NULL);
	for (unsigned c = 0; c < r->n_columns; c++) {
		fm_json_object(&j, NULL);
		fm_json_str(&j, "name", fm_str_of(r->columns[c].name));
		if (r->columns[c].type)
			fm_json_str(&j, "type", fm_str_of(r->columns[c].type));
		else
			fm_json_null(&j, "type");
		fm_json_end(&j);
	}
	fm_json_end(&j);
	fputs(",\n\"rows\":[", r->out);
}

static void json_page(const struct fm_rows *r)
{
	if (!r->n_pages)
		json_head(r);
	for (size_t i = 0; i < r->cells.n; i++) {
		if (i % r->n_columns == 0)
			fputs(r->n_written + i ? ",\n" : "\n", r->out);
		fputc(i % r->n_columns ? ',' : '[', r->out);
		json_cell(r->out, &r->cells.items[i]);
		fputs((i + 1) % r->n_columns ? "" : "]", r->out);
	}
}

// ---- CSV ----

static void plain_cell(FILE *out, const struct fm_value *cell)
{
	char text[FM_REAL_TEXT];
	if (cell->kind == FM_VALUE_INTEGER)
		fprintf(out, "%" PRId64, cell->integer);
	else if (cell->kind == FM_VALUE_REAL)
		fwrite(text, 1, (size_t)fm_real_text(cell->real, text), out);
}

static void csv_page(const struct fm_rows *r)
{
	for (unsigned c = 0; !r->n_pages && c < r->n_columns; c++) {
		fputs(c ? "," : "", r->out);
		fm_csv_put(r->out, fm_str_of(r->columns[c].name));
	}
	fputs(r->n_pages ? "" : "\n", r->out);
	for (size_t i = 0; i < r->cells.n; i++) {
		const struct fm_value *cell = &r->cells.items[i];
		if (cell->kind == FM_VALUE_TEXT)
			fm_csv_put(r->out, cell->text);
		else
			plain_cell(r->out, cell);
		fputc((i + 1) % r->n_columns ? ',' : '\n', r->out);
	}
}

// ---- markdown ----

static bool is_column_of_numbers(const struct fm_rows *r, unsigned column)
{
	bool is_any = false;
	for (size_t i = column; i < r->cells.n; i += r->n_columns) {
		if (r->cells.items[i].kind == FM_VALUE_TEXT)
			return false;
		is_any |= r->cells.items[i].kind != FM_VALUE_NULL;
	}
	return is_any;
}

static void markdown_head(const struct fm_rows *r)
{
	struct fm_buf b = { 0 };
	for (unsigned c = 0; c < r->n_columns; c++) {
		fm_buf_str(&b, "| ");
		fm_markdown_text(&b, fm_str_of(r->columns[c].name), SIZE_MAX / 2);
		fm_buf_u8(&b, ' ');
	}
	fm_buf_str(&b, "|\n");
	for (unsigned c = 0; c < r->n_columns; c++)
		fm_buf_str(&b, is_column_of_numbers(r, c) ? "|--:" : "|---");
	fm_buf_str(&b, "|\n");
	fwrite(b.data, 1, b.len, r->out);
	fm_buf_deinit(&b);
}

static void markdown_page(const struct fm_rows *r)
{
	if (!r->n_pages)
		markdown_head(r);
	struct fm_buf b = { 0 };
	for (size_t i = 0; i < r->cells.n; i++) {
		const struct fm_value *cell = &r->cells.items[i];
		fputs("| ", r->out);
		if (cell->kind == FM_VALUE_TEXT) {
			b.len = 0;
			fm_markdown_cell(&b, cell->text, SIZE_MAX / 2);
			fwrite(b.len ? (const char *)b.data : "", 1, b.len, r->out);
		} else {
			plain_cell(r->out, cell);
		}
		fputs((i + 1) % r->n_columns ? " " : " |\n", r->out);
	}
	fm_buf_deinit(&b);
}

// ---- pages ----

static void flush_page(struct fm_rows *r)
{
	switch (r->format) {
	case FM_ROWS_TABLE:
		fm_rows_table(r);
		break;
	case FM_ROWS_JSON:
		json_page(r);
		break;
	case FM_ROWS_CSV:
		csv_page(r);
		break;
	case FM_ROWS_MARKDOWN:
		markdown_page(r);
		break;
	}
	r->n_written += fm_rows_on_page(r);
	r->n_pages++;
	r->cells.n = 0;
	r->n_text_bytes = 0;
	fm_arena_deinit(&r->arena);
	fm_arena_init(&r->arena);
}

void fm_rows_end_row(struct fm_rows *r)
{
	if (fm_rows_on_page(r) >= FM_ROWS_PAGE || r->n_text_bytes >= FM_ROWS_PAGE_BYTES)
		flush_page(r);
}

void fm_rows_end(struct fm_rows *r, uint64_t n_left_out, bool is_more)
{
	if (r->cells.n || !r->n_pages)
		flush_page(r);
	if (r->format == FM_ROWS_JSON)
		fprintf(r->out, "],\n\"rows_left_out\":%" PRIu64 ",\"has_more\":%s}\n", n_left_out,
			is_more ? "true" : "false");
}
