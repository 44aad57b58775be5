// SPDX-License-Identifier: Apache-2.0
// The tables of queries: what each promises of its columns holds for every row, and figures that are known.
#include "render/query/tables.h"

#include <stdlib.h>
#include <string.h>

#include "test.h"
#include "known_analysis.h"

static struct fm_query_data *open_data(void)
{
	static struct fm_query_data data;
	struct fm_view_options options = FM_VIEW_OPTIONS_DEFAULT;
	fm_query_data_init(&data, open_known(&options));
	return &data;
}

static void close_data(struct fm_query_data *d)
{
	struct fm_analysis *a = d->a;
	fm_query_data_deinit(d);
	fm_analysis_close(a);
}

static bool is_name(const char *s)
{
	return strlen(s) > 0 && strlen(s) < 48 && strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_") == strlen(s);
}

TEST(tables_and_columns_have_names_and_meanings)
{
	unsigned n = fm_query_n_tables();
	CHECK(n > 0 && n <= FM_QUERY_MAX_TABLES);
	CHECK(!fm_query_table_at(n));
	for (unsigned i = 0; i < n; i++) {
		const struct fm_query_table *t = fm_query_table_at(i);
		CHECK(is_name(t->name) && strlen(t->meaning) > 5);
		CHECK(fm_query_table_find(t->name) == t); // nobody else is called that
		CHECK(t->n_columns > 0 && t->n_columns <= FM_ROW_MAX_COLUMNS);
		CHECK(!t->begin == !t->next && !t->begin == !!t->row);
		CHECK(t->n_guess >= 1);
		for (unsigned c = 0; c < t->n_columns; c++) {
			CHECK(is_name(t->columns[c].name) && strlen(t->columns[c].meaning) > 3);
			for (unsigned k = 0; k < c; k++)
				CHECK(strcmp(t->columns[c].name, t->columns[k].name));
		}
	}
	CHECK(fm_query_table_find("FUNCTIONS") == fm_query_table_find("functions"));
	CHECK(!fm_query_table_find("nothing"));
}

static void check_row(const struct fm_query_data *d, const struct fm_query_table *t, const struct fm_row *row)
{
	struct fm_buf text = { 0 };
	CHECK_EQ(row->n, t->n_columns);
	for (unsigned c = 0; c < row->n; c++) {
		const struct fm_value *value = &row->values[c];
		if (value->kind == FM_VALUE_NULL) {
			CHECK(t->columns[c].may_be_null);
			continue;
		}
		switch (t->columns[c].type) {
		case FM_COLUMN_INTEGER:
			CHECK_EQ(value->kind, FM_VALUE_INTEGER);
			break;
		case FM_COLUMN_REAL:
			CHECK_EQ(value->kind, FM_VALUE_REAL);
			break;
		case FM_COLUMN_TEXT:
			CHECK(value->kind >= FM_VALUE_TEXT);
			CHECK(fm_query_text(d, value, &text).p != NULL);
			break;
		}
	}
	fm_buf_deinit(&text);
}

static uint64_t check_stream(struct fm_query_data *d, const struct fm_query_table *t)
{
	struct fm_reader *reader;
	struct fm_diag diag;
	struct fm_row row = { 0 };
	uint64_t n = 0;
	CHECK_EQ(t->begin(d, &reader, &diag), FM_OK);
	enum fm_err err;
	for (; !(err = t->next(d, reader, &row)); n++, row.n = 0)
		check_row(d, t, &row);
	CHECK_EQ(err, FM_E_END);
	fm_reader_close(reader);
	return n;
}

TEST(every_row_has_what_its_columns_promise)
{
	struct fm_query_data *d = open_data();
	for (unsigned i = 0; i < fm_query_n_tables(); i++) {
		const struct fm_query_table *t = fm_query_table_at(i);
		uint64_t n = t->count(d);
		if (n == UINT64_MAX) {
			CHECK_EQ(check_stream(d, t), d->a->tally.n_samples);
			continue;
		}
		CHECK_EQ(t->count(d), n); // asked twice, it is as it was
		for (uint64_t k = 0; k < n; k++) {
			struct fm_row row = { 0 };
			t->row(d, k, &row);
			check_row(d, t, &row);
		}
	}
	close_data(d);
}

static const struct fm_value *value_of(const struct fm_query_table *t, const struct fm_row *row, const char *column)
{
	for (unsigned c = 0; c < t->n_columns; c++)
		if (!strcmp(t->columns[c].name, column))
			return &row->values[c];
	CHECK(false);
	return NULL;
}

// The sum of a column of seconds, in milliseconds.
static uint64_t sum_ms(struct fm_query_data *d, const char *table, const char *column)
{
	const struct fm_query_table *t = fm_query_table_find(table);
	double sum = 0;
	for (uint64_t k = 0, n = t->count(d); k < n; k++) {
		struct fm_row row = { 0 };
		t->row(d, k, &row);
		sum += value_of(t, &row, column)->real;
	}
	return (uint64_t)(sum * 1e3 + 0.5);
}

TEST(each_table_divides_the_same_time)
{
	struct fm_query_data *d = open_data();
	CHECK_EQ(sum_ms(d, "functions", "self_s"), 10000);
	CHECK_EQ(sum_ms(d, "stacks", "total_s"), 10000);
	CHECK_EQ(sum_ms(d, "nodes", "self_s"), 10000);
	CHECK_EQ(sum_ms(d, "nodes", "self_wait_s"), 300);
	CHECK_EQ(sum_ms(d, "stacks", "gil_wait_s"), 300);
	CHECK_EQ(sum_ms(d, "waits", "total_s"), 300);
	CHECK_EQ(sum_ms(d, "processes", "python_s"), sum_ms(d, "meta", "python_s"));
	CHECK_EQ(sum_ms(d, "threads", "native_s"), 4000);
	CHECK_EQ(sum_ms(d, "cpus", "cpu_s"), 10000);
	close_data(d);
}

TEST(text_is_what_sql_can_hold)
{
	struct fm_query_data *d = open_data();
	struct fm_buf b = { 0 };
	struct fm_value value = { .kind = FM_VALUE_TEXT, .text = { "a\0b\xff\n", 5 } };
	struct fm_str text = fm_query_text(d, &value, &b);
	CHECK(fm_str_eq(text, FM_STR_LIT("a\xef\xbf\xbd"
					 "b\xef\xbf\xbd\n")));
	value = (struct fm_value){ .kind = FM_VALUE_COMMAND, .text = { "a b\0c\xff", 6 } };
	CHECK(fm_str_eq(fm_query_text(d, &value, &b), FM_STR_LIT("'a b' c\xef\xbf\xbd")));
	value = (struct fm_value){ .kind = FM_VALUE_HEX, .text = { "\x01\xfe", 2 } };
	CHECK(fm_str_eq(fm_query_text(d, &value, &b), FM_STR_LIT("01fe")));
	value = (struct fm_value){ .kind = FM_VALUE_STACK, .node = 0 };
	CHECK(fm_str_eq(fm_query_text(d, &value, &b), FM_STR_LIT("[no frames]")));
	value = (struct fm_value){ .kind = FM_VALUE_TEXT, .text = { NULL, 0 } };
	CHECK(fm_query_text(d, &value, &b).p != NULL);
	fm_buf_deinit(&b);
	close_data(d);
}

TEST_MAIN()
