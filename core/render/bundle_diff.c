// The bundle of a comparison: the same tables with what each figure was in the base capture.
#include <math.h>
#include <stdlib.h>

#include "aggregate/overlay.h"
#include "render/bundle.h"
#include "render/columns.h"
#include "render/report_json.h"
#include "render/string_table.h"

struct diff {
	const struct fm_analysis *side[2];
	const struct fm_bundle_limits *limits;
	struct fm_overlay compare;
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
	for (uint32_t i = 0; i < n; i++) {
		int side;
		const struct fm_function *f = function_at(d, i, &side);
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
	const struct fm_overlay *c = &d->compare;
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
	for (size_t i = 0; i < c->cells.n; i++) {
		at[i] = c->cells.items[i].node;
		class[i] = c->cells.items[i].class;
		weight_s[i] = fm_seconds(c->cells.items[i].ns[1]);
		base_s[i] = fm_seconds(c->cells.items[i].ns[0]);
	}
}

static double half_interval(const double variance[2])
{
	return 1.96 * sqrt(variance[0] + variance[1]);
}

static void add_rows(struct diff *d)
{
	const struct fm_overlay *c = &d->compare;
	size_t n = FM_MIN(c->rows.n, d->limits->max_functions);
	uint32_t *function = fm_columns_u32(&d->columns, "func_row.function", n);
	double *self_s = fm_columns_f64(&d->columns, "func_row.self_s", n);
	double *base_self_s = fm_columns_f64(&d->columns, "func_row.base_self_s", n);
	double *total_s = fm_columns_f64(&d->columns, "func_row.total_s", n);
	double *base_total_s = fm_columns_f64(&d->columns, "func_row.base_total_s", n);
	double *plus_minus_s = fm_columns_f64(&d->columns, "func_row.plus_minus_s", n);
	double *self_plus_minus_s = fm_columns_f64(&d->columns, "func_row.self_plus_minus_s", n);
	uint8_t *significant = fm_columns_u8(&d->columns, "func_row.significant", n);
	for (size_t i = 0; i < n; i++) {
		const struct fm_overlay_row *row = &c->rows.items[i];
		function[i] = row->function;
		self_s[i] = fm_seconds(row->self_ns[1]);
		base_self_s[i] = fm_seconds(row->self_ns[0]);
		total_s[i] = fm_seconds(row->total_ns[1]);
		base_total_s[i] = fm_seconds(row->total_ns[0]);
		plus_minus_s[i] = half_interval(row->total_variance);
		self_plus_minus_s[i] = half_interval(row->self_variance);
		significant[i] = fm_overlay_is_significant(c, row->total_ns, row->total_variance) ||
				 fm_overlay_is_significant(c, row->self_ns, row->self_variance);
	}
}

// A file as the new capture knows it; files are told apart by the functions' names for them.
static void add_lines(struct diff *d)
{
	const struct fm_overlay *c = &d->compare;
	size_t n = FM_MIN(c->lines.n, d->limits->max_lines);
	struct fm_map index = { 0 }; // string of the file's name -> file
	FM_VEC(uint32_t) files = { 0 };
	uint32_t *file = fm_columns_u32(&d->columns, "line.file", n);
	uint32_t *line = fm_columns_u32(&d->columns, "line.line", n);
	uint32_t *function = fm_columns_u32(&d->columns, "line.function", n);
	static const char *const names[FM_N_CLASSES] = { "line.python_s", "line.native_s",   "line.system_s",
							 "line.gc_s",     "line.gil_wait_s", "line.wait_s" };
	double *class_s[FM_N_CLASSES];
	for (unsigned k = 0; k < FM_N_CLASSES; k++)
		class_s[k] = fm_columns_f64(&d->columns, names[k], n);
	double *base_s = fm_columns_f64(&d->columns, "line.base_s", n);
	double *plus_minus_s = fm_columns_f64(&d->columns, "line.plus_minus_s", n);
	uint8_t *significant = fm_columns_u8(&d->columns, "line.significant", n);
	for (size_t i = 0; i < n; i++) {
		const struct fm_overlay_row *row = &c->lines.items[i];
		int side;
		bool is_new;
		uint32_t name = fm_string_table_name(&d->text, function_at(d, row->function, &side)->file);
		uint64_t *at = fm_map_at(&index, name, &is_new);
		if (is_new) {
			*at = files.n;
			fm_vec_push(&files, name);
		}
		file[i] = (uint32_t)*at;
		line[i] = row->line;
		function[i] = row->function;
		for (unsigned k = 0; k < FM_N_CLASSES; k++)
			class_s[k][i] = fm_seconds(row->class_ns[k]);
		base_s[i] = fm_seconds(row->total_ns[0]);
		plus_minus_s[i] = half_interval(row->total_variance);
		significant[i] = fm_overlay_is_significant(c, row->total_ns, row->total_variance);
	}
	uint32_t *name = fm_columns_u32(&d->columns, "file.name", files.n);
	fm_columns_u32(&d->columns, "file.source", files.n);
	fm_columns_u8(&d->columns, "file.flags", files.n);
	for (size_t i = 0; i < files.n; i++)
		name[i] = files.items[i];
	fm_vec_deinit(&files);
	fm_map_deinit(&index);
}

static void add_report(struct fm_json *j, const char *key, const struct fm_analysis *a)
{
	struct fm_summary t;
	struct fm_libraries l;
	fm_libraries_build(&l, &a->tally, &a->view, a->symbolizer);
	fm_summary_build(&t, a->profile, &a->tally, &a->view, a->symbolizer, &a->options);
	fm_json_newline(j);
	fm_json_object(j, key);
	fm_report_json(j, a, &t, &l, false);
	fm_json_end(j);
	fm_libraries_deinit(&l);
	fm_summary_deinit(&t);
}

static void add_head(struct fm_json *j, void *ctx)
{
	const struct diff *d = ctx;
	fm_json_bool(j, "diff", true);
	fm_json_object(j, "limits");
	fm_json_u64(j, "nodes_left_out", d->compare.n_left_out);
	fm_json_end(j);
	add_report(j, "report", d->side[1]);
	add_report(j, "base", d->side[0]);
}

enum fm_err fm_bundle_write_diff(FILE *out, const struct fm_analysis *base, const struct fm_analysis *a,
				 const struct fm_bundle_limits *limits, struct fm_diag *diag)
{
	struct diff d = { .side = { base, a }, .limits = limits };
	fm_overlay_build(&d.compare, base, a, limits->max_nodes);
	fm_string_table_init(&d.text, limits->text_bytes);
	add_functions(&d);
	add_tree(&d);
	add_rows(&d);
	add_lines(&d);
	// One thread for the cells to be in.
	fm_columns_u32(&d.columns, "thread.process", 1)[0] = FM_NO_ID;
	fm_columns_u32(&d.columns, "thread.tid", 1);
	fm_columns_u32(&d.columns, "thread.name", 1);
	fm_columns_f64(&d.columns, "thread.cpu_s", 1);
	fm_columns_f64(&d.columns, "thread.wall_s", 1);
	fm_columns_f64(&d.columns, "thread.start_s", 1);
	fm_columns_f64(&d.columns, "thread.end_s", 1);
	fm_string_table_columns(&d.text, &d.columns);
	fm_columns_write(&d.columns, out, add_head, &d);
	fm_columns_deinit(&d.columns);
	fm_string_table_deinit(&d.text);
	fm_overlay_deinit(&d.compare);
	return FM_OK;
}
