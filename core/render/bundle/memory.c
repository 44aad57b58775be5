// SPDX-License-Identifier: Apache-2.0
// The memory tables of the bundle: what was allocated where (heap), the program's memory over time
// (memory), what looks like a leak (leak), and the memory columns of functions and lines. Without
// memory a capture still knows its resident pages.
#include <stdlib.h>

#include "render/bundle/part.h"

static const uint32_t no_timeline = UINT32_MAX;

static bool takes(const struct fm_bundle *b, const struct fm_heap_stack_row *row)
{
	const struct fm_filter *f = b->options->filter;
	return !f || fm_filter_takes_thread(f, row->thread_id);
}

static int by_node(const void *a, const void *b)
{
	const struct fm_bundle_heap_row *x = a, *y = b;
	if (x->node != y->node)
		return x->node < y->node ? -1 : 1;
	return x->thread < y->thread ? -1 : x->thread > y->thread;
}

size_t fm_bundle_sum_heap(struct fm_bundle *b)
{
	b->heap_rows.n = 0;
	for (size_t i = 0; i < b->heap_stacks->n; i++) {
		const struct fm_heap_stack_row *row = &b->heap_stacks->items[i];
		if (takes(b, row))
			fm_vec_push(&b->heap_rows,
				    (struct fm_bundle_heap_row){
					    .node = b->tree.kept[fm_view_node(&b->a->view, row->stack_id)],
					    .thread = row->thread_id,
					    .bytes = { row->alloc_bytes, row->at_peak_bytes, row->leaked_bytes,
						       row->copy_bytes } });
	}
	if (!b->heap_rows.n)
		return 0;
	struct fm_bundle_heap_row *rows = b->heap_rows.items;
	qsort(rows, b->heap_rows.n, sizeof(*rows), by_node);
	size_t n = 1;
	for (size_t i = 1; i < b->heap_rows.n; i++) {
		if (by_node(&rows[i], &rows[n - 1])) {
			rows[n++] = rows[i];
			continue;
		}
		for (int k = 0; k < 4; k++)
			rows[n - 1].bytes[k] += rows[i].bytes[k];
	}
	b->heap_rows.n = n;
	return n;
}

static void write_heap(struct fm_bundle *b)
{
	static const char *const names[4] = { "heap.alloc", "heap.peak", "heap.leak", "heap.copy" };
	size_t n = b->heap_rows.n;
	uint32_t *node = fm_columns_u32(&b->columns, "heap.node", n);
	uint32_t *thread = fm_columns_u32(&b->columns, "heap.thread", n);
	for (size_t i = 0; i < n; i++) {
		node[i] = b->heap_rows.items[i].node;
		thread[i] = b->heap_rows.items[i].thread;
	}
	for (int k = 0; k < 4; k++) {
		double *bytes = fm_columns_f64(&b->columns, names[k], n);
		for (size_t i = 0; i < n; i++)
			bytes[i] = (double)b->heap_rows.items[i].bytes[k];
	}
}

static void write_over_time(struct fm_bundle *b)
{
	const struct fm_heap *h = &b->a->heap;
	size_t n = h->timeline.n;
	double *time_s = fm_columns_f64(&b->columns, "memory.time_s", n);
	double *heap = fm_columns_f64(&b->columns, "memory.heap", n);
	double *rss = fm_columns_f64(&b->columns, "memory.rss", n);
	for (size_t i = 0; i < n; i++) {
		const struct fm_heap_point *p = &h->timeline.items[i];
		uint64_t from_ns = i ? h->timeline.items[i - 1].time_ns : h->begin_ns; // a point is a bucket's end
		time_s[i] = from_ns > b->start_ns ? fm_seconds(from_ns - b->start_ns) : 0;
		heap[i] = (double)p->heap_high_bytes; // a peak between two points is what one looks for
		rss[i] = (double)p->rss_bytes;
	}
}

static void write_leaks(struct fm_bundle *b)
{
	const struct fm_heap *h = &b->a->heap;
	size_t n = h->leaks.n;
	uint32_t *file = fm_columns_u32(&b->columns, "leak.file", n);
	uint32_t *line = fm_columns_u32(&b->columns, "leak.line", n);
	uint32_t *function = fm_columns_u32(&b->columns, "leak.function", n);
	double *likelihood = fm_columns_f64(&b->columns, "leak.likelihood", n);
	double *velocity = fm_columns_f64(&b->columns, "leak.velocity", n);
	double *bytes = fm_columns_f64(&b->columns, "leak.bytes", n);
	uint32_t *types = fm_columns_u32(&b->columns, "leak.types", n);
	for (size_t i = 0; i < n; i++) {
		const struct fm_heap_leak_row *row = &h->leaks.items[i];
		bool has_line = row->file_id != FM_NO_ID;
		file[i] = has_line ? fm_bundle_file(b, row->function_id) : FM_NO_ID;
		line[i] = has_line ? row->line : 0;
		function[i] = fm_bundle_function(b, row->function_id);
		likelihood[i] = row->likelihood;
		velocity[i] = row->velocity_bytes_s;
		bytes[i] = (double)row->bytes;
		types[i] = fm_string_table_name(&b->text, row->types);
	}
}

void fm_bundle_add_memory(struct fm_bundle *b)
{
	if (b->heap_rows.n)
		write_heap(b);
	if (b->options->filter && !fm_filter_is_empty(b->options->filter))
		return; // what follows is of the whole run
	fm_bundle_add_blocks(b);
	if (b->a->heap.timeline.n)
		write_over_time(b);
	if (b->a->heap.leaks.n)
		write_leaks(b);
}

// How long a byte lived, as a mean: what is held on average is what comes in a second times how long
// it stays (Little). What was never freed lived to the end of the run.
static double life_s(const struct fm_heap *h, const struct fm_heap_figures *f)
{
	double run_s = h->end_ns > h->begin_ns ? fm_seconds(h->end_ns - h->begin_ns) : 0;
	return f->alloc_bytes ? FM_MIN((double)f->avg_bytes / (double)f->alloc_bytes, 1.0) * run_s : 0;
}

void fm_bundle_add_function_memory(struct fm_bundle *b, const struct fm_heap_function_row *const *rows, size_t n)
{
	if (!b->a->heap.is_there)
		return;
	double *alloc = fm_columns_f64(&b->columns, "func_row.alloc_bytes", n);
	double *peak = fm_columns_f64(&b->columns, "func_row.peak_bytes", n);
	double *allocs = fm_columns_f64(&b->columns, "func_row.allocs", n);
	double *live = fm_columns_f64(&b->columns, "func_row.live_bytes", n);
	double *life = fm_columns_f64(&b->columns, "func_row.life_s", n);
	for (size_t i = 0; i < n; i++) {
		if (!rows[i])
			continue;
		const struct fm_heap_figures *f = &rows[i]->self;
		alloc[i] = (double)f->alloc_bytes;
		peak[i] = (double)f->peak_bytes;
		allocs[i] = (double)f->n_allocs;
		live[i] = (double)f->live_bytes;
		life[i] = life_s(&b->a->heap, f);
	}
}

// Only lines that ever held anything have a timeline: most have none.
static void write_line_timelines(struct fm_bundle *b, const struct fm_heap_line_row *const *rows, size_t n)
{
	uint32_t *first = fm_columns_u32(&b->columns, "line.timeline", n), n_points = 0;
	for (size_t i = 0; i < n; i++) {
		bool has_one = rows[i] && rows[i]->f.peak_bytes;
		first[i] = has_one ? n_points : no_timeline;
		n_points += has_one ? FM_HEAP_LINE_BUCKETS : 0;
	}
	float *bytes = fm_columns_f32(&b->columns, "line_timeline.bytes", n_points);
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; first[i] != no_timeline && k < FM_HEAP_LINE_BUCKETS; k++)
			bytes[first[i] + k] = (float)rows[i]->timeline[k];
}

void fm_bundle_add_line_memory(struct fm_bundle *b, const struct fm_heap_line_row *const *rows, size_t n)
{
	if (!b->a->heap.is_there)
		return;
	double *alloc = fm_columns_f64(&b->columns, "line.alloc_bytes", n);
	double *peak = fm_columns_f64(&b->columns, "line.peak_bytes", n);
	double *average = fm_columns_f64(&b->columns, "line.avg_bytes", n);
	double *copy = fm_columns_f64(&b->columns, "line.copy_bytes", n);
	double *allocs = fm_columns_f64(&b->columns, "line.allocs", n);
	double *live = fm_columns_f64(&b->columns, "line.live_bytes", n);
	double *life = fm_columns_f64(&b->columns, "line.life_s", n);
	uint32_t *types = fm_columns_u32(&b->columns, "line.types", n);
	float *python_share = fm_columns_f32(&b->columns, "line.python_share", n);
	for (size_t i = 0; i < n; i++) {
		if (!rows[i])
			continue;
		const struct fm_heap_figures *f = &rows[i]->f;
		alloc[i] = (double)f->alloc_bytes;
		peak[i] = (double)f->peak_bytes;
		average[i] = (double)f->avg_bytes;
		copy[i] = (double)f->copy_bytes;
		allocs[i] = (double)f->n_allocs;
		live[i] = (double)f->live_bytes;
		types[i] = rows[i]->types.p ? fm_string_table_name(&b->text, rows[i]->types) : 0;
		life[i] = life_s(&b->a->heap, f);
		if (f->alloc_bytes)
			python_share[i] =
				(float)((double)FM_MIN(f->python_bytes, f->alloc_bytes) / (double)f->alloc_bytes);
	}
	write_line_timelines(b, rows, n);
}
