// SPDX-License-Identifier: Apache-2.0
// fathom query --tables: what can be asked for.
#include "base/json.h"
#include "render/query/query.h"
#include "render/query/tables.h"

#define NAME_CELLS 28
#define TYPE_CELLS 9

void fm_query_print_tables(FILE *out, const struct fm_view_options *view)
{
	struct fm_style style;
	fm_style_init(&style, out, view);
	const struct fm_query_table *t;
	for (unsigned i = 0; (t = fm_query_table_at(i)); i++) {
		fputs(i ? "\n" : "", out);
		fm_style_paint(&style, FM_PAINT_BOLD);
		fputs(t->name, out);
		fm_style_paint(&style, FM_PAINT_NONE);
		fprintf(out, ": %s\n", t->meaning);
		for (unsigned c = 0; c < t->n_columns; c++)
			fprintf(out, "  %-*s %-*s %s\n", NAME_CELLS, t->columns[c].name, TYPE_CELLS,
				fm_column_types[t->columns[c].type], t->columns[c].meaning);
	}
}

void fm_query_print_tables_json(FILE *out)
{
	struct fm_json j;
	fm_json_init(&j, out);
	fm_json_object(&j, NULL);
	fm_json_str(&j, "schema", FM_STR_LIT("fathom.tables/1"));
	fm_json_array(&j, "tables");
	const struct fm_query_table *t;
	for (unsigned i = 0; (t = fm_query_table_at(i)); i++) {
		fm_json_newline(&j);
		fm_json_object(&j, NULL);
		fm_json_str(&j, "name", fm_str_of(t->name));
		fm_json_str(&j, "meaning", fm_str_of(t->meaning));
		fm_json_array(&j, "columns");
		for (unsigned c = 0; c < t->n_columns; c++) {
			fm_json_newline(&j);
			fm_json_object(&j, NULL);
			fm_json_str(&j, "name", fm_str_of(t->columns[c].name));
			fm_json_str(&j, "type", fm_str_of(fm_column_types[t->columns[c].type]));
			fm_json_bool(&j, "may_be_null", t->columns[c].may_be_null);
			fm_json_str(&j, "meaning", fm_str_of(t->columns[c].meaning));
			fm_json_end(&j);
		}
		fm_json_end(&j);
		fm_json_end(&j);
	}
	fm_json_end(&j); // tables
	fm_json_end(&j);
	fm_json_newline(&j);
}
