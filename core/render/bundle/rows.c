// SPDX-License-Identifier: Apache-2.0
// The tables of functions and lines, and the names that all tables refer to.
#include <stdlib.h>
#include <string.h>

#include "aggregate/tree/own_tree.h"
#include "render/bundle/part.h"
#include "render/json/report_json.h"

uint32_t fm_bundle_function(struct fm_bundle *b, uint32_t function_id)
{
	uint32_t *index = &b->function_index[function_id];
	if (!*index) {
		fm_vec_push(&b->functions, function_id);
		*index = (uint32_t)b->functions.n;
	}
	return *index - 1;
}

uint32_t fm_bundle_file(struct fm_bundle *b, uint32_t function_id)
{
	uint64_t *index = fm_map_at(&b->file_index, fm_analysis_function(b->a, function_id)->file_id, NULL);
	if (!*index) {
		fm_vec_push(&b->files, function_id);
		*index = b->files.n;
	}
	return (uint32_t)*index - 1;
}

// The columns of a time per class, under the names of the report.
struct classes {
	double *python, *native, *system, *gc, *gil_wait, *wait;
};

static void fill_classes(const struct classes *c, size_t i, const struct fm_weight *w)
{
	c->python[i] = fm_seconds(w->ns[FM_CLASS_PYTHON]);
	c->native[i] = fm_seconds(w->ns[FM_CLASS_NATIVE]);
	c->system[i] = fm_seconds(w->ns[FM_CLASS_SYSTEM]);
	c->gc[i] = fm_seconds(w->ns[FM_CLASS_GC]);
	c->gil_wait[i] = fm_seconds(w->ns[FM_CLASS_GIL_WAIT]);
	c->wait[i] = fm_seconds(w->ns[FM_CLASS_WAIT]);
}

// Rows with time come first, then those without: these get a quarter of the room, or what is left
// of it.
static size_t share_room(size_t room, size_t n_timed, size_t n_others, size_t *ret_timed, size_t *ret_others)
{
	*ret_timed = FM_MIN(n_timed, room - FM_MIN(n_others, room / 4));
	*ret_others = FM_MIN(n_others, room - *ret_timed);
	return n_timed + n_others - *ret_timed - *ret_others;
}

// The functions that have a row: with time, with memory alone, with calls alone.
static uint32_t *choose_functions(struct fm_bundle *b, struct fm_json_heap_index *index, size_t *ret_timed,
				  size_t *ret_n)
{
	const struct fm_heap *heap = &b->a->heap;
	size_t n_timed = b->summary->functions.n, n_others = 0, kept_timed, kept_others;
	uint32_t *ids = fm_alloc((n_timed + heap->functions.n + b->calls.n + 1) * sizeof(*ids));
	bool *has_row = fm_alloc(fm_symbolizer_n_functions(b->a->symbolizer) + 1);
	for (size_t i = 0; i < n_timed; i++) {
		ids[i] = b->summary->functions.items[i].function_id;
		fm_json_heap_function(index, ids[i]);
		has_row[ids[i]] = true;
	}
	for (size_t i = 0; i < heap->functions.n; i++)
		if (!index->function_is_done[i]) {
			ids[n_timed + n_others++] = heap->functions.items[i].function_id;
			has_row[heap->functions.items[i].function_id] = true;
		}
	for (size_t i = 0; i < b->calls.n; i++)
		if (!has_row[b->calls.items[i].function_id])
			ids[n_timed + n_others++] = b->calls.items[i].function_id;
	free(has_row);
	b->n_functions_left_out = share_room(b->limits->max_functions, n_timed, n_others, &kept_timed, &kept_others);
	memmove(ids + kept_timed, ids + n_timed, kept_others * sizeof(*ids));
	*ret_timed = kept_timed;
	*ret_n = kept_timed + kept_others;
	return ids;
}

static void add_functions(struct fm_bundle *b, struct fm_json_heap_index *index)
{
	size_t n_timed, n;
	uint32_t *ids = choose_functions(b, index, &n_timed, &n);
	const struct fm_heap_function_row **memory = fm_alloc((n + 1) * sizeof(*memory));
	for (size_t i = 0; i < n; i++)
		memory[i] = fm_json_heap_function(index, ids[i]);
	uint32_t *function = fm_columns_u32(&b->columns, "func_row.function", n);
	double *self = fm_columns_f64(&b->columns, "func_row.self_s", n);
	double *total = fm_columns_f64(&b->columns, "func_row.total_s", n);
	double *self_plus_minus = fm_columns_f64(&b->columns, "func_row.self_plus_minus_s", n);
	double *plus_minus = fm_columns_f64(&b->columns, "func_row.plus_minus_s", n);
	const struct classes classes = {
		fm_columns_f64(&b->columns, "func_row.python_s", n),
		fm_columns_f64(&b->columns, "func_row.native_s", n),
		fm_columns_f64(&b->columns, "func_row.system_s", n),
		fm_columns_f64(&b->columns, "func_row.gc_s", n),
		fm_columns_f64(&b->columns, "func_row.gil_wait_s", n),
		fm_columns_f64(&b->columns, "func_row.wait_s", n),
	};
	for (size_t i = 0; i < n; i++) {
		static const struct fm_function_row no_time;
		const struct fm_function_row *row = i < n_timed ? &b->summary->functions.items[i] : &no_time;
		function[i] = fm_bundle_function(b, ids[i]);
		self[i] = fm_seconds(fm_weight_cpu_ns(&row->self));
		total[i] = fm_seconds(fm_weight_cpu_ns(&row->total));
		self_plus_minus[i] = fm_summary_plus_minus_s(b->summary, &row->self);
		plus_minus[i] = fm_summary_plus_minus_s(b->summary, &row->total);
		fill_classes(&classes, i, &row->charged);
	}
	fm_bundle_add_function_memory(b, memory, n);
	fm_bundle_add_calls(b, ids, n);
	free(memory);
	free(ids);
}

static void add_lines(struct fm_bundle *b, struct fm_json_heap_index *index)
{
	const struct fm_heap *heap = &b->a->heap;
	size_t n_timed = b->summary->lines.n, n_others = 0, n_known = n_timed + heap->lines.n;
	const struct fm_heap_line_row **memory = fm_alloc((n_known + 1) * sizeof(*memory));
	const struct fm_heap_line_row **others = fm_alloc((heap->lines.n + 1) * sizeof(*others));
	for (size_t i = 0; i < n_timed; i++)
		memory[i] =
			fm_json_heap_line(index, b->summary->lines.items[i].file_id, b->summary->lines.items[i].line);
	for (size_t i = 0; i < heap->lines.n; i++)
		if (!index->line_is_done[i])
			others[n_others++] = &heap->lines.items[i];
	b->n_lines_left_out = share_room(b->limits->max_lines, n_timed, n_others, &n_timed, &n_others);
	for (size_t i = 0; i < n_others; i++)
		memory[n_timed + i] = others[i];
	size_t n = n_timed + n_others;
	uint32_t *file = fm_columns_u32(&b->columns, "line.file", n);
	uint32_t *line = fm_columns_u32(&b->columns, "line.line", n);
	uint32_t *function = fm_columns_u32(&b->columns, "line.function", n);
	double *plus_minus = fm_columns_f64(&b->columns, "line.plus_minus_s", n);
	const struct classes classes = {
		fm_columns_f64(&b->columns, "line.python_s", n),   fm_columns_f64(&b->columns, "line.native_s", n),
		fm_columns_f64(&b->columns, "line.system_s", n),   fm_columns_f64(&b->columns, "line.gc_s", n),
		fm_columns_f64(&b->columns, "line.gil_wait_s", n), fm_columns_f64(&b->columns, "line.wait_s", n),
	};
	for (size_t i = 0; i < n; i++) {
		struct fm_line_row other = { .function_id = i < n_timed ? 0 : memory[i]->function_id,
					     .line = i < n_timed ? 0 : memory[i]->line };
		const struct fm_line_row *row = i < n_timed ? &b->summary->lines.items[i] : &other;
		file[i] = fm_bundle_file(b, row->function_id);
		line[i] = row->line;
		function[i] = fm_bundle_function(b, row->function_id);
		plus_minus[i] = fm_summary_plus_minus_s(b->summary, &row->weight);
		fill_classes(&classes, i, &row->weight);
	}
	fm_bundle_add_line_memory(b, memory, n);
	free(memory);
	free(others);
}

void fm_bundle_add_rows(struct fm_bundle *b)
{
	struct fm_json_heap_index index;
	fm_json_heap_index_init(&index, b->a);
	add_functions(b, &index);
	add_lines(b, &index);
	fm_json_heap_index_deinit(&index);
}

enum { LIBRARY = 1, PLUMBING = 2, UNKNOWN = 4 };

static void name_functions(struct fm_bundle *b)
{
	size_t n = b->functions.n;
	uint32_t *name = fm_columns_u32(&b->columns, "function.name", n);
	uint32_t *full_name = fm_columns_u32(&b->columns, "function.full_name", n);
	uint32_t *file = fm_columns_u32(&b->columns, "function.file", n);
	uint32_t *module = fm_columns_u32(&b->columns, "function.module", n);
	uint32_t *library = fm_columns_u32(&b->columns, "function.library", n);
	uint32_t *line = fm_columns_u32(&b->columns, "function.line", n);
	uint8_t *kind = fm_columns_u8(&b->columns, "function.kind", n);
	uint8_t *flags = fm_columns_u8(&b->columns, "function.flags", n);
	uint32_t *package = fm_columns_u32(&b->columns, "function.package", n);
	uint8_t *roles = fm_columns_u8(&b->columns, "function.roles", n);
	for (size_t i = 0; i < n; i++) {
		const struct fm_function *f = fm_analysis_function(b->a, b->functions.items[i]);
		roles[i] = fm_own_roles(b->whole, b->a->symbolizer, b->functions.items[i]);
		package[i] = fm_string_table_name(&b->text, fm_own_package_name(f, roles[i]));
		name[i] = fm_string_table_name(&b->text, f->name);
		full_name[i] = fm_string_table_name(&b->text, f->full_name);
		file[i] = fm_string_table_name(&b->text, f->file);
		module[i] = fm_string_table_name(&b->text, f->module);
		library[i] = fm_string_table_name(&b->text, f->path);
		line[i] = f->line;
		kind[i] = f->kind;
		flags[i] = (uint8_t)((f->is_library ? LIBRARY : 0) | (f->is_plumbing ? PLUMBING : 0) |
				     (f->is_known ? 0 : UNKNOWN));
	}
}

static struct fm_str source_of(const struct fm_profile *p, const struct fm_map *by_name, struct fm_str name)
{
	const uint64_t *found = fm_map_find(by_name, fm_hash_bytes(name.p, name.len));
	if (!found || !fm_str_eq(p->sources.items[*found].filename, name))
		return FM_STR_LIT("");
	return p->sources.items[*found].text;
}

static void name_files(struct fm_bundle *b)
{
	const struct fm_profile *p = b->a->profile;
	for (size_t i = 0; i < b->functions.n; i++) // the page shows source for every Python function it names
		if (fm_analysis_function(b->a, b->functions.items[i])->kind == FM_FRAME_PYTHON)
			fm_bundle_file(b, b->functions.items[i]);
	struct fm_map by_name = { 0 };
	for (size_t i = 0; i < p->sources.n; i++)
		*fm_map_at(&by_name, fm_hash_bytes(p->sources.items[i].filename.p, p->sources.items[i].filename.len),
			   NULL) = i;
	size_t n = b->files.n, room = b->limits->source_bytes;
	uint32_t *name = fm_columns_u32(&b->columns, "file.name", n);
	uint32_t *source = fm_columns_u32(&b->columns, "file.source", n);
	uint8_t *flags = fm_columns_u8(&b->columns, "file.flags", n);
	for (size_t i = 0; i < n; i++) { // files with lines come first, those with the hottest line before others
		const struct fm_function *f = fm_analysis_function(b->a, b->files.items[i]);
		struct fm_str text = source_of(p, &by_name, f->file);
		name[i] = fm_string_table_name(&b->text, f->file);
		source[i] = fm_string_table_whole(&b->text, text, room);
		room -= source[i] ? text.len : 0;
		flags[i] = f->is_library ? LIBRARY : 0;
	}
	fm_map_deinit(&by_name);
}

void fm_bundle_add_names(struct fm_bundle *b)
{
	name_functions(b);
	name_files(b);
}
