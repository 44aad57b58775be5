// SPDX-License-Identifier: Apache-2.0
#include "aggregate/heap/heap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "aggregate/heap/parts.h"
#include "aggregate/tally/weight.h"

// Freeing a few GiB of objects takes about a second.
#define MAX_END_NS 1000000000u

double fm_heap_plus_minus(double variance)
{
	return fm_interval(variance);
}

static int compare_lines(const void *pa, const void *pb)
{
	const struct fm_heap_line_row *a = pa, *b = pb;
	return a->f.peak_bytes != b->f.peak_bytes     ? FM_ORDER(b->f.peak_bytes, a->f.peak_bytes)
	       : a->f.alloc_bytes != b->f.alloc_bytes ? FM_ORDER(b->f.alloc_bytes, a->f.alloc_bytes)
	       : a->file_id != b->file_id             ? FM_ORDER(a->file_id, b->file_id)
						      : FM_ORDER(a->line, b->line);
}

static int compare_functions(const void *pa, const void *pb)
{
	const struct fm_heap_function_row *a = pa, *b = pb;
	return a->self.peak_bytes != b->self.peak_bytes     ? FM_ORDER(b->self.peak_bytes, a->self.peak_bytes)
	       : a->total.peak_bytes != b->total.peak_bytes ? FM_ORDER(b->total.peak_bytes, a->total.peak_bytes)
							    : FM_ORDER(a->function_id, b->function_id);
}

static bool is_empty(const struct fm_heap_figures *f)
{
	return !f->alloc_bytes && !f->copy_bytes && !f->peak_bytes && !f->n_allocs;
}

static bool has_python(const struct fm_view *view, uint32_t stack_id)
{
	return stack_id < view->n_stacks && view->stack_flags[stack_id] & FM_STACK_HAS_PYTHON;
}

// An interpreter that ends gives everything back, in its first thread, and runs next to no Python
// code while it does.
static void settle(struct fm_heap *h, const struct fm_tally *tally, const struct fm_view *view, bool goes_on)
{
	h->settled_ns = h->end_ns;
	if (goes_on)
		return;
	const struct fm_heap_log *log = &tally->memory;
	uint64_t last_ns = log->last_side_free_ns, length_ns = h->end_ns - h->begin_ns;
	for (size_t i = 0; i < tally->cells.n; i++) {
		const struct fm_cell *cell = &tally->cells.items[i];
		// What is left of a thread's waiting is told when the thread is gone, with that
		// time.
		if (fm_class_is_cpu(cell->class) && has_python(view, cell->stack_id))
			last_ns = FM_MAX(last_ns, cell->last_ns);
	}
	for (size_t i = 0; i < log->blocks.n; i++)
		if (has_python(view, log->blocks.items[i].stack_id))
			last_ns = FM_MAX(last_ns, log->blocks.items[i].born_ns);
	uint64_t most_ns = FM_MAX(length_ns / 50, FM_MIN(length_ns / 3, (uint64_t)MAX_END_NS));
	h->settled_ns = FM_MIN(FM_MAX(last_ns, h->end_ns - most_ns), h->end_ns);
}

// Each small block that was drawn stands for the mean distance of its time, and half its size.
static uint64_t mean_distance(const struct fm_heap_log *log)
{
	double bytes = 0, n = 0;
	for (size_t i = 0; i < log->blocks.n; i++) {
		const struct fm_block *b = &log->blocks.items[i];
		if (b->weight <= b->size)
			continue;
		bytes += (double)b->weight - (double)b->size / 2;
		n++;
	}
	return n > 0 ? (uint64_t)(bytes / n) >> log->thinning : 0;
}

void fm_heap_build(struct fm_heap *h, struct fm_tally *tally, const struct fm_profile *profile,
		   const struct fm_view *view, const struct fm_symbolizer *symbolizer,
		   const struct fm_view_options *options)
{
	struct fm_heap_log *log = &tally->memory;
	*h = (struct fm_heap){ 0 };
	fm_arena_init(&h->arena);
	struct fm_str mode = fm_profile_meta(profile, "memory", (struct fm_str){ "", 0 });
	h->is_exact = profile->sites.n > 0 || fm_str_eq(mode, FM_STR_LIT("exact"));
	h->is_there = h->is_exact || log->blocks.n || log->copies.n || fm_str_eq(mode, FM_STR_LIT("sampled"));
	fm_heap_log_sort(log, profile);
	h->begin_ns = log->begin_ns;
	h->end_ns = log->end_ns;
	h->thinning = log->thinning;
	h->mean_bytes = h->is_exact ? 0 : mean_distance(log);
	settle(h, tally, view, fm_profile_meta(profile, "goes_on", (struct fm_str){ "", 0 }).len > 0);

	for (size_t i = 0; i < log->blocks.n; i++)
		log->blocks.items[i].node = fm_view_node(view, log->blocks.items[i].stack_id);
	for (size_t i = 0; i < log->copies.n; i++)
		log->copies.items[i].node = fm_view_node(view, log->copies.items[i].stack_id);
	struct fm_heap_input in = { profile, tally, log, view, symbolizer, options->detailed };
	struct fm_heap_marks marks;
	fm_heap_curve(h, &in, &marks);
	fm_heap_resident(h, &in);
	if (!h->is_there)
		return;
	struct fm_heap_groups groups;
	fm_heap_groups_init(&groups, h, &in);
	fm_heap_tables(h, &in, &groups, &marks);
	fm_heap_peak_lines(h, &in, &groups, &marks);
	fm_heap_leaks(h, log, &in, &groups);
	fm_heap_stacks(h, &in, &marks);
	if (profile->sites.n)
		fm_heap_sites(h, &in, &groups);
	if (profile->sites.n && !log->blocks.n)
		fm_heap_histories(h, &in, &groups);
	fm_heap_groups_deinit(&groups);

	size_t kept = 0;
	for (size_t i = 0; i < h->functions.n; i++)
		if (!is_empty(&h->functions.items[i].total) || !is_empty(&h->functions.items[i].self))
			h->functions.items[kept++] = h->functions.items[i];
	h->functions.n = kept;
	if (h->functions.n)
		qsort(h->functions.items, h->functions.n, sizeof(*h->functions.items), compare_functions);
	if (h->lines.n)
		qsort(h->lines.items, h->lines.n, sizeof(*h->lines.items), compare_lines);
}

void fm_heap_deinit(struct fm_heap *h)
{
	fm_vec_deinit(&h->lines);
	fm_vec_deinit(&h->functions);
	fm_vec_deinit(&h->stacks);
	fm_vec_deinit(&h->leaks);
	fm_vec_deinit(&h->timeline);
	fm_vec_deinit(&h->peaks);
	fm_vec_deinit(&h->peak_lines);
	fm_vec_deinit(&h->resident.owners);
	fm_arena_deinit(&h->arena);
}
