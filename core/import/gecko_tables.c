// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "import/gecko.h"

#define MAX_SCHEMA 32 // columns of a raw table
// Nulls that rows leave out at their ends take memory, and no bytes of the file: so many for each
// value that is there, and some.
#define PADS_PER_VALUE 8u
#define PADS_FLOOR ((size_t)1 << 20)

static const struct {
	const char *table, *column;
} names[GECKO_N_COLUMNS] = {
	[STACK_PREFIX] = { "stackTable", "prefix" },
	[STACK_PREFIX_OFFSET] = { "stackTable", "prefixOffset" },
	[STACK_FRAME] = { "stackTable", "frame" },
	[STACK_CATEGORY] = { "stackTable", "category" },
	[FRAME_FUNC] = { "frameTable", "func" },
	[FRAME_LOCATION] = { "frameTable", "location" },
	[FRAME_LINE] = { "frameTable", "line" },
	[FRAME_ADDRESS] = { "frameTable", "address" },
	[FRAME_LIB] = { "frameTable", "lib" },
	[FRAME_INLINE_DEPTH] = { "frameTable", "inlineDepth" },
	[FRAME_CATEGORY] = { "frameTable", "category" },
	[FUNC_NAME] = { "funcTable", "name" },
	[FUNC_FILE] = { "funcTable", "fileName" },
	[FUNC_SOURCE] = { "funcTable", "source" },
	[FUNC_RESOURCE] = { "funcTable", "resource" },
	[FUNC_LINE] = { "funcTable", "lineNumber" },
	[RESOURCE_LIB] = { "resourceTable", "lib" },
	[SOURCE_FILENAME] = { "sources", "filename" },
	[SAMPLE_STACK] = { "samples", "stack" },
	[SAMPLE_TIME] = { "samples", "time" },
	[SAMPLE_TIME_DELTA] = { "samples", "timeDeltas" },
	[SAMPLE_WEIGHT] = { "samples", "weight" },
	[SAMPLE_CPU_DELTA] = { "samples", "threadCPUDelta" },
};

static int find_column(struct fm_str table, struct fm_str column)
{
	for (int i = 0; i < GECKO_N_COLUMNS; i++)
		if (fm_str_eq(table, fm_str_of(names[i].table)) && fm_str_eq(column, fm_str_of(names[i].column)))
			return i;
	return -1;
}

static double read_value(struct fm_json_in *j)
{
	if (fm_json_in_kind(j) == '0')
		return fm_json_in_real(j);
	fm_json_in_skip(j);
	return NAN;
}

static void read_column(struct fm_json_in *j, struct gecko_values *v)
{
	if (fm_json_in_array(j))
		while (fm_json_in_item(j))
			fm_vec_push(v, read_value(j));
}

// A raw table: its rows as columns by their place, and where each column goes, which may be said
// behind the rows.
struct raw {
	struct gecko_values columns[MAX_SCHEMA];
	int8_t to[MAX_SCHEMA]; // enum gecko_column + 1; 0 = nowhere
	size_t n_rows, n_values, n_pads;
};

static void read_schema(struct fm_json_in *j, struct fm_str table, struct raw *raw)
{
	struct fm_str key;
	if (!fm_json_in_object(j))
		return;
	while (fm_json_in_key(j, &key)) {
		int column = find_column(table, key);
		int64_t at = fm_json_in_int_or(j, -1);
		if (at >= 0 && at < MAX_SCHEMA)
			raw->to[at] = (int8_t)(column + 1);
	}
}

static void pad(struct fm_json_in *j, struct raw *raw, struct gecko_values *v)
{
	size_t n = raw->n_rows - v->n;
	raw->n_pads += n;
	if (raw->n_pads > PADS_FLOOR + raw->n_values * PADS_PER_VALUE) {
		fm_json_in_fail(j, "most rows of a table have no values");
		return;
	}
	for (; n; n--)
		fm_vec_push(v, NAN);
}

// Rows end where only nulls would follow.
static void read_rows(struct fm_json_in *j, struct raw *raw)
{
	if (!fm_json_in_array(j))
		return;
	for (; fm_json_in_item(j); raw->n_rows++) {
		if (!fm_json_in_array(j))
			continue;
		for (uint32_t i = 0; fm_json_in_item(j); i++) {
			double value = read_value(j);
			if (i >= MAX_SCHEMA || isnan(value))
				continue;
			raw->n_values++;
			pad(j, raw, &raw->columns[i]);
			fm_vec_push(&raw->columns[i], value);
		}
	}
}

static void take_rows(struct fm_json_in *j, struct raw *raw, struct gecko_tables *t)
{
	for (uint32_t i = 0; i < MAX_SCHEMA; i++) {
		struct gecko_values *to = raw->to[i] ? &t->of[raw->to[i] - 1] : NULL;
		if (to && raw->n_rows) {
			pad(j, raw, &raw->columns[i]);
			fm_vec_deinit(to);
			*to = raw->columns[i];
		} else {
			fm_vec_deinit(&raw->columns[i]);
		}
		raw->columns[i] = (struct gecko_values){ 0 };
	}
}

static void read_strings(struct fm_json_in *j, struct gecko_tables *t)
{
	if (!fm_json_in_array(j))
		return;
	while (fm_json_in_item(j)) {
		struct fm_str s = fm_json_in_str(j);
		fm_vec_push(&t->strings, (struct fm_str){ fm_arena_strdup(&t->arena, s.p, s.len), s.len });
	}
}

static enum gecko_weight read_weight(struct fm_json_in *j)
{
	struct fm_str type = fm_json_in_str(j);
	return fm_str_eq(type, FM_STR_LIT("bytes"))        ? GECKO_BYTES
	       : fm_str_eq(type, FM_STR_LIT("tracing-ms")) ? GECKO_MS
							   : GECKO_COUNTS;
}

bool gecko_read_table(struct gecko *g, struct gecko_tables *t, struct fm_str key)
{
	char name[32];
	struct fm_str table = { name, key.len }, column;
	struct raw raw = { .n_rows = 0 };
	bool is_known = false;
	if (fm_str_eq(key, FM_STR_LIT("stringArray")) || fm_str_eq(key, FM_STR_LIT("stringTable"))) {
		read_strings(&g->j, t);
		return true;
	}
	for (int i = 0; i < GECKO_N_COLUMNS; i++)
		is_known = is_known || fm_str_eq(key, fm_str_of(names[i].table));
	if (!is_known)
		return false;
	memcpy(name, key.p, key.len); // a known one is short
	if (!fm_json_in_object(&g->j))
		return true;
	while (fm_json_in_key(&g->j, &column)) {
		int to = find_column(table, column);
		if (to >= 0)
			read_column(&g->j, &t->of[to]);
		else if (fm_str_eq(column, FM_STR_LIT("weightType")))
			t->weight = read_weight(&g->j);
		else if (fm_str_eq(column, FM_STR_LIT("schema")))
			read_schema(&g->j, table, &raw);
		else if (fm_str_eq(column, FM_STR_LIT("data")))
			read_rows(&g->j, &raw);
		else
			fm_json_in_skip(&g->j);
	}
	take_rows(&g->j, &raw, t);
	return true;
}

void gecko_tables_clear(struct gecko_tables *t)
{
	for (int i = 0; i < GECKO_N_COLUMNS; i++)
		t->of[i].n = 0;
	fm_arena_deinit(&t->arena);
	fm_arena_init(&t->arena);
	t->weight = GECKO_COUNTS;
	t->strings.n = t->stacks.n = t->classes.n = t->leaves.n = 0;
}

void gecko_tables_deinit(struct gecko_tables *t)
{
	for (int i = 0; i < GECKO_N_COLUMNS; i++)
		fm_vec_deinit(&t->of[i]);
	fm_arena_deinit(&t->arena);
	fm_vec_deinit(&t->strings);
	fm_vec_deinit(&t->stacks);
	fm_vec_deinit(&t->classes);
	fm_vec_deinit(&t->leaves);
}

const struct gecko_values *gecko_column(const struct gecko *g, enum gecko_column c)
{
	return g->thread.of[c].n ? &g->thread.of[c] : &g->shared.of[c];
}

int64_t gecko_index(const struct gecko *g, enum gecko_column c, int64_t i)
{
	const struct gecko_values *v = gecko_column(g, c);
	double value = i >= 0 && (uint64_t)i < v->n ? v->items[i] : NAN;
	return value >= 0 && value < 9e15 ? (int64_t)value : -1;
}

struct fm_str gecko_str(const struct gecko *g, int64_t i)
{
	const struct gecko_tables *t = g->thread.strings.n ? &g->thread : &g->shared;
	return i >= 0 && (uint64_t)i < t->strings.n ? t->strings.items[i] : (struct fm_str){ "", 0 };
}
