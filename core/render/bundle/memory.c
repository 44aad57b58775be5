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

void fm_bundle_add_heap_shares(const struct fm_bundle *b, double *shares)
{
	double whole[4] = { 0, 0, 0, 0 };
	for (int pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < b->heap_stacks->n; i++) {
			const struct fm_heap_stack_row *row = &b->heap_stacks->items[i];
			const double bytes[4] = { (double)row->alloc_bytes, (double)row->at_peak_bytes,
						  (double)row->leaked_bytes, (double)row->copy_bytes };
			double *share = &shares[fm_view_node(&b->a->view, row->stack_id)];
			for (int k = 0; k < 4 && takes(b, row); k++) {
				if (!pass)
					whole[k] += bytes[k];
				else if (whole[k] > 0)
					*share += bytes[k] / whole[k];
			}
		}
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

void fm_bundle_add_function_memory(struct fm_bundle *b, const struct fm_heap_function_row *const *rows, size_t n)
{
	if (!b->a->heap.is_there)
		return;
	double *alloc = fm_columns_f64(&b->columns, "func_row.alloc_bytes", n);
	double *peak = fm_columns_f64(&b->columns, "func_row.peak_bytes", n);
	for (size_t i = 0; i < n; i++) {
		alloc[i] = rows[i] ? (double)rows[i]->self.alloc_bytes : 0;
		peak[i] = rows[i] ? (double)rows[i]->self.peak_bytes : 0;
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
	float *python_share = fm_columns_f32(&b->columns, "line.python_share", n);
	for (size_t i = 0; i < n; i++) {
		if (!rows[i])
			continue;
		const struct fm_heap_figures *f = &rows[i]->f;
		alloc[i] = (double)f->alloc_bytes;
		peak[i] = (double)f->peak_bytes;
		average[i] = (double)f->avg_bytes;
		copy[i] = (double)f->copy_bytes;
		if (f->alloc_bytes)
			python_share[i] =
				(float)((double)FM_MIN(f->python_bytes, f->alloc_bytes) / (double)f->alloc_bytes);
	}
	write_line_timelines(b, rows, n);
}
