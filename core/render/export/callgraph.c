// SPDX-License-Identifier: Apache-2.0
#include "render/export/callgraph.h"

#include <inttypes.h>
#include <stdlib.h>

#include "aggregate/tree/edges.h"
#include "aggregate/analysis/leaves.h"
#include "aggregate/trace/trace.h"
#include "base/cleanup.h"
#include "render/shared/label.h"

// Functions and calls below these shares of the whole are left out of the picture; gprof2dot's
// defaults.
#define MIN_BOX_SHARE 0.005
#define MIN_LINE_SHARE 0.001

#define NONE UINT32_MAX

struct fm_hsv fm_callgraph_color(double share)
{
	share = FM_MIN(FM_MAX(share, 0.0), 1.0);
	return (struct fm_hsv){ 0.66 * (1 - share), 0.75, 0.35 + 0.45 * share };
}

void fm_callgraph_deinit(struct fm_callgraph *g)
{
	fm_vec_deinit(&g->boxes);
	fm_vec_deinit(&g->lines);
	fm_arena_deinit(&g->strings);
}

static struct fm_str keep(struct fm_callgraph *g, struct fm_str s)
{
	return (struct fm_str){ fm_arena_strdup(&g->strings, s.p ? s.p : "", s.len), s.len };
}

static struct fm_str keep_place(struct fm_callgraph *g, struct fm_str file, uint32_t line)
{
	struct fm_buf text = { 0 };
	fm_buf_bytes(&text, file.p, file.len);
	if (file.len && line)
		fm_buf_printf(&text, ":%u", line);
	struct fm_str ret = keep(g, (struct fm_str){ (const char *)text.data, (uint32_t)text.len });
	fm_buf_deinit(&text);
	return ret;
}

// A function is in the picture when it is large enough and among the first.
static bool has_room(struct fm_callgraph *g, double share, size_t max_boxes)
{
	if (share < MIN_BOX_SHARE)
		return false;
	if (max_boxes && g->boxes.n >= max_boxes) {
		g->n_left_out++;
		return false;
	}
	return true;
}

static void add_line(struct fm_callgraph *g, uint32_t from, uint32_t to, double share, uint64_t n_calls)
{
	if (from != NONE && to != NONE && share >= MIN_LINE_SHARE)
		fm_vec_push(&g->lines, (struct fm_callgraph_line){ from, to, share, n_calls });
}

static uint32_t *no_boxes(size_t n)
{
	uint32_t *ret = fm_alloc((n + 1) * sizeof(*ret));
	for (size_t i = 0; i < n; i++)
		ret[i] = NONE;
	return ret;
}

static void build_of_calls(struct fm_callgraph *g, const struct fm_trace_stats *s,
			   const struct fm_view_options *options, size_t max_boxes)
{
	double whole_ns = 0;
	for (size_t i = 0; i < s->functions.n; i++)
		whole_ns += (double)s->functions.items[i].own_ns;
	g->is_traced = true;
	g->whole_s = whole_ns * 1e-9;
	g->unit = s->unit;
	whole_ns = whole_ns > 0 ? whole_ns : 1;
	_cleanup_free_ uint32_t *box = no_boxes(s->functions.n);
	_cleanup_free_ uint32_t *order = fm_trace_sorted(s, FM_TRACE_BY_TOTAL);
	for (size_t i = 0; i < s->functions.n; i++) {
		const struct fm_traced_function *f = &s->functions.items[order[i]];
		double share = (double)f->total_ns / whole_ns;
		if (!has_room(g, share, max_boxes))
			continue;
		struct fm_str file = options->full_filenames ? f->file : fm_label_last_part(f->file);
		box[order[i]] = (uint32_t)g->boxes.n;
		fm_vec_push(&g->boxes, (struct fm_callgraph_box){ keep(g, f->name), keep_place(g, file, f->line), share,
								  (double)f->own_ns / whole_ns, f->n_calls });
	}
	for (size_t i = 0; i < s->edges.n; i++) {
		const struct fm_trace_edge *e = &s->edges.items[i];
		if (e->caller != FM_NO_ID)
			add_line(g, box[e->caller], box[e->callee], (double)e->total_ns / whole_ns, e->n_calls);
	}
}

static void build_of_samples(struct fm_callgraph *g, struct fm_analysis *a, size_t max_boxes)
{
	const struct fm_summary *summary = fm_analysis_summary(a);
	double whole_ns = (double)fm_weight_cpu_ns(&summary->total);
	g->whole_s = whole_ns * 1e-9;
	whole_ns = whole_ns > 0 ? whole_ns : 1;
	_cleanup_free_ uint32_t *box = no_boxes(fm_symbolizer_n_functions(a->symbolizer));
	for (size_t i = 0; i < summary->functions.n; i++) {
		const struct fm_function_row *row = &summary->functions.items[i];
		const struct fm_function *f = fm_analysis_function(a, row->function_id);
		double share = (double)fm_weight_cpu_ns(&row->total) / whole_ns;
		if (!has_room(g, share, max_boxes))
			continue;
		box[row->function_id] = (uint32_t)g->boxes.n;
		fm_vec_push(&g->boxes,
			    (struct fm_callgraph_box){ keep(g, f->name),
						       keep_place(g, fm_label_file(a, row->function_id), f->line),
						       share, (double)fm_weight_cpu_ns(&row->self) / whole_ns, 0 });
	}
	_cleanup_free_ double *cpu_ns = fm_alloc((a->view.nodes.n + 1) * sizeof(*cpu_ns));
	struct fm_view_options options = a->options;
	options.idle = false; // a graph of CPU time
	struct fm_leaves leaves;
	fm_leaves_of(&leaves, a, &options);
	for (size_t i = 0; i < leaves.items.n; i++)
		cpu_ns[leaves.items.items[i].node] += (double)leaves.items.items[i].weight_ns;
	fm_leaves_deinit(&leaves);
	struct fm_edges edges;
	fm_edges_build(&edges, a->view.nodes.items, a->view.nodes.n, cpu_ns);
	for (size_t i = 0; i < edges.items.n; i++) {
		const struct fm_edge *e = &edges.items.items[i];
		add_line(g, box[e->caller], box[e->callee], e->weight / whole_ns, 0);
	}
	fm_edges_deinit(&edges);
}

enum fm_err fm_callgraph_build(struct fm_callgraph *g, struct fm_analysis *a, size_t max_boxes, struct fm_diag *diag)
{
	*g = (struct fm_callgraph){ 0 };
	bool has_calls = a->calls->n_calls > 0;
	enum fm_err err = has_calls ? FM_OK : fm_analysis_add_stacks(a, diag);
	if (err)
		return err;
	fm_arena_init(&g->strings);
	if (has_calls)
		build_of_calls(g, a->calls, &a->options, max_boxes);
	else
		build_of_samples(g, a, max_boxes);
	return FM_OK;
}
