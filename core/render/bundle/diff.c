// SPDX-License-Identifier: Apache-2.0
// The bundle of a comparison: the same tables with what each figure was in the base capture.
#include <stdlib.h>

#include "aggregate/compare/series.h"
#include "aggregate/compare/diff.h"
#include "aggregate/compare/zone_pairs.h"
#include "aggregate/tree/own_tree.h"
#include "render/bundle/bundle.h"
#include "render/bundle/columns.h"
#include "render/bundle/part.h"
#include "render/json/report_json.h"
#include "render/bundle/string_table.h"
#include "render/shared/compare.h"

struct diff {
	struct fm_analysis *side[2];
	const struct fm_bundle_limits *limits;
	struct fm_diff_tree compare;
	struct fm_runs runs[2];
	struct fm_diff changes;
	struct fm_zone_pairs zones;
	struct fm_string_table text;
	struct fm_columns columns;
};

// The function as the new capture knows it, or the base when only that has it.
static const struct fm_function *function_at(const struct diff *d, uint32_t function, int *ret_side)
{
	const uint32_t *id = d->compare.functions.items[function].id;
	*ret_side = id[1] != FM_NO_ID;
	return fm_analysis_function(d->side[*ret_side], id[*ret_side]);
}

static void add_functions(struct diff *d)
{
	size_t n = d->compare.functions.n;
	uint32_t *name = fm_columns_u32(&d->columns, "function.name", n);
	uint32_t *full_name = fm_columns_u32(&d->columns, "function.full_name", n);
	uint32_t *file = fm_columns_u32(&d->columns, "function.file", n);
	uint32_t *module = fm_columns_u32(&d->columns, "function.module", n);
	uint32_t *library = fm_columns_u32(&d->columns, "function.library", n);
	uint32_t *line = fm_columns_u32(&d->columns, "function.line", n);
	uint8_t *kind = fm_columns_u8(&d->columns, "function.kind", n);
	uint8_t *flags = fm_columns_u8(&d->columns, "function.flags", n);
	uint32_t *package = fm_columns_u32(&d->columns, "function.package", n);
	uint8_t *roles = fm_columns_u8(&d->columns, "function.roles", n);
	for (uint32_t i = 0; i < n; i++) {
		int side;
		const struct fm_function *f = function_at(d, i, &side);
		struct fm_analysis *a = d->side[side];
		roles[i] = fm_own_roles(fm_analysis_summary(a), a->symbolizer, d->compare.functions.items[i].id[side]);
		package[i] = fm_string_table_name(&d->text, fm_own_package_name(f, roles[i]));
		name[i] = fm_string_table_name(&d->text, f->name);
		full_name[i] = fm_string_table_name(&d->text, f->full_name);
		file[i] = fm_string_table_name(&d->text, f->file);
		module[i] = fm_string_table_name(&d->text, f->module);
		library[i] = fm_string_table_name(&d->text, f->path);
		line[i] = f->line;
		kind[i] = f->kind;
		flags[i] = (uint8_t)(f->is_library | f->is_plumbing << 1 | !f->is_known << 2);
	}
}

static void add_tree(struct diff *d)
{
	const struct fm_diff_tree *c = &d->compare;
	uint32_t *parent = fm_columns_u32(&d->columns, "node.parent", c->nodes.n);
	uint32_t *function = fm_columns_u32(&d->columns, "node.function", c->nodes.n);
	uint32_t *line = fm_columns_u32(&d->columns, "node.line", c->nodes.n);
	uint8_t *flags = fm_columns_u8(&d->columns, "node.flags", c->nodes.n);
	for (size_t i = 1; i < c->nodes.n; i++) {
		const struct fm_node *node = &c->nodes.items[i];
		int side;
		parent[i] = node->parent;
		function[i] = node->function_id;
		line[i] = function_at(d, node->function_id, &side)->line;
		flags[i] = node->is_inlined;
	}
	uint32_t *at = fm_columns_u32(&d->columns, "cell.node", c->cells.n);
	fm_columns_u32(&d->columns, "cell.thread", c->cells.n); // threads are not compared: all are one
	uint8_t *class = fm_columns_u8(&d->columns, "cell.class", c->cells.n);
	double *weight_s = fm_columns_f64(&d->columns, "cell.weight_s", c->cells.n);
	double *base_s = fm_columns_f64(&d->columns, "cell.base_s", c->cells.n);
	uint32_t *n = fm_columns_u32(&d->columns, "cell.n", c->cells.n);
	uint32_t *base_n = fm_columns_u32(&d->columns, "cell.base_n", c->cells.n);
	double *sq = fm_columns_f64(&d->columns, "cell.sq", c->cells.n);
	double *base_sq = fm_columns_f64(&d->columns, "cell.base_sq", c->cells.n);
	for (size_t i = 0; i < c->cells.n; i++) {
		at[i] = c->cells.items[i].node;
		class[i] = c->cells.items[i].class;
		weight_s[i] = fm_seconds(c->cells.items[i].ns[1]);
		base_s[i] = fm_seconds(c->cells.items[i].ns[0]);
		n[i] = (uint32_t)FM_MIN(c->cells.items[i].n[1], UINT32_MAX);
		base_n[i] = (uint32_t)FM_MIN(c->cells.items[i].n[0], UINT32_MAX);
		sq[i] = c->cells.items[i].sq[1];
		base_sq[i] = c->cells.items[i].sq[0];
	}
}

// What each node had of memory in both; absent where neither has any.
static void add_heap(struct diff *d)
{
	static const char *const names[2][FM_N_HEAP_KINDS] = {
		{ "heap.base_alloc", "heap.base_peak", "heap.base_leak", "heap.base_copy" },
		{ "heap.alloc", "heap.peak", "heap.leak", "heap.copy" },
	};
	size_t n = d->compare.heap.n;
	if (!n)
		return;
	uint32_t *node = fm_columns_u32(&d->columns, "heap.node", n);
	fm_columns_u32(&d->columns, "heap.thread", n);
	for (size_t i = 0; i < n; i++)
		node[i] = d->compare.heap.items[i].node;
	for (int side = 0; side < 2; side++)
		for (int k = 0; k < FM_N_HEAP_KINDS; k++) {
			double *bytes = fm_columns_f64(&d->columns, names[side][k], n);
			for (size_t i = 0; i < n; i++)
				bytes[i] = (double)d->compare.heap.items[i].bytes[side][k];
		}
}

enum { FUNCTIONS, LINES, MEMORY_FUNCTIONS, MEMORY_LINES, N_LISTS };
enum { IN_BASE = 1, IN_NEW = 2 };

// The rows of `fathom diff`, all four lists, each largest change first.
static void add_changes(struct diff *d)
{
	const struct fm_diff *c = &d->changes;
	const struct {
		const struct fm_diff_row *rows;
		size_t n;
	} lists[N_LISTS] = {
		[FUNCTIONS] = { c->functions.items, FM_MIN(c->functions.n, d->limits->max_functions) },
		[LINES] = { c->lines.items, FM_MIN(c->lines.n, d->limits->max_lines) },
		[MEMORY_FUNCTIONS] = { c->memory_functions.items,
				       FM_MIN(c->memory_functions.n, d->limits->max_functions) },
		[MEMORY_LINES] = { c->memory_lines.items, FM_MIN(c->memory_lines.n, d->limits->max_lines) },
	};
	size_t n = 0, at = 0;
	for (unsigned k = 0; k < N_LISTS; k++)
		n += lists[k].n;
	uint8_t *list = fm_columns_u8(&d->columns, "change.list", n);
	uint32_t *name = fm_columns_u32(&d->columns, "change.name", n);
	uint32_t *file = fm_columns_u32(&d->columns, "change.file", n);
	uint32_t *text = fm_columns_u32(&d->columns, "change.text", n);
	uint32_t *line = fm_columns_u32(&d->columns, "change.line", n);
	double *base = fm_columns_f64(&d->columns, "change.base", n);
	double *new = fm_columns_f64(&d->columns, "change.new", n);
	double *plus_minus = fm_columns_f64(&d->columns, "change.plus_minus", n);
	uint8_t *sides = fm_columns_u8(&d->columns, "change.sides", n);
	uint8_t *significant = fm_columns_u8(&d->columns, "change.significant", n);
	for (unsigned k = 0; k < N_LISTS; k++)
		for (size_t i = 0; i < lists[k].n; i++, at++) {
			const struct fm_diff_row *row = &lists[k].rows[i];
			list[at] = (uint8_t)k;
			name[at] = fm_string_table_name(&d->text, row->row->name);
			file[at] = fm_string_table_name(&d->text, row->row->file);
			text[at] = fm_string_table_name(&d->text, row->row->text);
			line[at] = row->row->line;
			base[at] = row->change.base.mean;
			new[at] = row->change.new.mean;
			plus_minus[at] = row->change.plus_minus;
			sides[at] = (uint8_t)((row->is_in_base ? IN_BASE : 0) | (row->is_in_new ? IN_NEW : 0));
			significant[at] = row->change.is_significant;
		}
}

// Both over time, each from its own begin: cores in use, and memory.
static enum fm_err add_series(struct diff *d, struct fm_diag *diag)
{
	static const char *const names[2][3] = { { "series.base_cpu", "series.base_heap", "series.base_rss" },
						 { "series.cpu", "series.heap", "series.rss" } };
	struct fm_series *series = fm_alloc(2 * sizeof(*series));
	uint64_t start_ns[2], span_ns = 0;
	enum fm_err err = FM_OK;
	for (int side = 0; side < 2; side++) {
		uint64_t end_ns = fm_series_end_ns(d->side[side]);
		start_ns[side] = fm_bundle_start_ns(d->side[side]);
		span_ns = FM_MAX(span_ns, end_ns > start_ns[side] ? end_ns - start_ns[side] : 0);
	}
	for (int side = 0; side < 2 && !err; side++)
		err = fm_series_build(&series[side], d->side[side], start_ns[side], span_ns, diag);
	if (!err && span_ns) {
		double width_s = fm_seconds(span_ns) / FM_SERIES_PARTS;
		bool has_memory = series[0].has_memory || series[1].has_memory;
		double *time_s = fm_columns_f64(&d->columns, "series.time_s", FM_SERIES_PARTS);
		for (size_t i = 0; i < FM_SERIES_PARTS; i++)
			time_s[i] = (double)i * width_s;
		for (int side = 0; side < 2; side++) {
			double *cpu = fm_columns_f64(&d->columns, names[side][0], FM_SERIES_PARTS);
			for (size_t i = 0; i < FM_SERIES_PARTS; i++)
				cpu[i] = series[side].cpu_s[i] / width_s;
			if (!has_memory)
				continue;
			double *heap = fm_columns_f64(&d->columns, names[side][1], FM_SERIES_PARTS);
			double *rss = fm_columns_f64(&d->columns, names[side][2], FM_SERIES_PARTS);
			for (size_t i = 0; i < FM_SERIES_PARTS; i++) {
				heap[i] = (double)series[side].heap[i];
				rss[i] = (double)series[side].rss[i];
			}
		}
	}
	free(series);
	return err;
}

// The whole that an interval of a part needs (fm_plus_minus_s).
static void add_sampled(struct fm_json *j, const char *key, struct fm_analysis *a)
{
	const struct fm_summary *t = fm_analysis_summary(a);
	fm_json_object(j, key);
	fm_json_real(j, "whole_s", fm_seconds(fm_weight_cpu_ns(&t->total)));
	fm_json_u64(j, "n", t->total.n);
	fm_json_real(j, "sq", t->total.cpu_sq);
	fm_json_real(j, "heavy_sq", t->heavy_sq);
	fm_json_real(j, "misplaced_s", t->misplaced_s);
	fm_json_end(j);
}

static void add_report(struct fm_json *j, const char *key, struct fm_analysis *a)
{
	struct fm_libraries l;
	fm_libraries_build(&l, &a->tally, &a->view, a->symbolizer);
	fm_json_newline(j);
	fm_json_object(j, key);
	fm_report_json(j, a, fm_analysis_summary(a), &l, false);
	fm_json_end(j);
	fm_libraries_deinit(&l);
}

static void add_head(struct fm_json *j, void *ctx)
{
	const struct diff *d = ctx;
	fm_json_bool(j, "diff", true);
	fm_json_object(j, "limits");
	fm_json_u64(j, "nodes_left_out", d->compare.n_left_out);
	fm_json_end(j);
	add_sampled(j, "sampled", d->side[1]);
	add_sampled(j, "base_sampled", d->side[0]);
	add_report(j, "report", d->side[1]);
	add_report(j, "base", d->side[0]);
}

enum fm_err fm_bundle_write_diff(FILE *out, struct fm_analysis *base, struct fm_analysis *a,
				 const struct fm_bundle_limits *limits, struct fm_diag *diag)
{
	struct diff d = { .side = { base, a }, .limits = limits };
	fm_diff_tree_build(&d.compare, base, a, limits->max_nodes);
	for (int side = 0; side < 2; side++)
		fm_compare_add(&d.runs[side], d.side[side]);
	bool has_users = fm_runs_has_users(&d.runs[0]) && fm_runs_has_users(&d.runs[1]);
	fm_diff_build(&d.changes, &d.runs[0], &d.runs[1], a->options.detailed || !has_users);
	fm_string_table_init(&d.text, limits->text_bytes);
	add_functions(&d);
	add_tree(&d);
	add_heap(&d);
	add_changes(&d);
	enum fm_err err = add_series(&d, diag);
	if (!err)
		err = fm_zone_pairs_build(&d.zones, base, a, diag);
	fm_bundle_add_zone_pairs(&d.columns, &d.text, &d.zones);
	// One thread for the cells to be in.
	fm_columns_u32(&d.columns, "thread.process", 1)[0] = FM_NO_ID;
	fm_columns_u32(&d.columns, "thread.tid", 1);
	fm_columns_u32(&d.columns, "thread.name", 1);
	fm_columns_f64(&d.columns, "thread.cpu_s", 1);
	fm_columns_f64(&d.columns, "thread.wall_s", 1);
	fm_columns_f64(&d.columns, "thread.start_s", 1);
	fm_columns_f64(&d.columns, "thread.end_s", 1);
	fm_string_table_columns(&d.text, &d.columns);
	if (!err)
		fm_columns_write(&d.columns, out, add_head, &d);
	fm_columns_deinit(&d.columns);
	fm_string_table_deinit(&d.text);
	fm_zone_pairs_deinit(&d.zones);
	fm_diff_deinit(&d.changes);
	fm_runs_deinit(&d.runs[0]);
	fm_runs_deinit(&d.runs[1]);
	fm_diff_tree_deinit(&d.compare);
	return err;
}
