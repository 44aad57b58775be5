// SPDX-License-Identifier: Apache-2.0
#include "render/json/report_json.h"

#include <stdlib.h>

// Lines that made a peak: the rest is one sum.
#define PEAK_LINES 20

void fm_json_heap_index_init(struct fm_json_heap_index *x, const struct fm_analysis *a)
{
	*x = (struct fm_json_heap_index){ .heap = &a->heap, .n_functions = fm_symbolizer_n_functions(a->symbolizer) };
	x->functions = fm_alloc((x->n_functions + 1) * sizeof(*x->functions));
	x->line_is_done = fm_alloc(a->heap.lines.n + 1);
	x->function_is_done = fm_alloc(a->heap.functions.n + 1);
	for (uint32_t i = 0; i < a->heap.lines.n; i++) {
		const struct fm_heap_line_row *row = &a->heap.lines.items[i];
		*fm_map_at(&x->lines, (uint64_t)row->file_id << 32 | row->line, NULL) = i;
	}
	for (uint32_t i = 0; i < a->heap.functions.n; i++)
		if (a->heap.functions.items[i].function_id < x->n_functions)
			x->functions[a->heap.functions.items[i].function_id] = i + 1;
}

void fm_json_heap_index_deinit(struct fm_json_heap_index *x)
{
	fm_map_deinit(&x->lines);
	free(x->functions);
	free(x->line_is_done);
	free(x->function_is_done);
}

const struct fm_heap_line_row *fm_json_heap_line(struct fm_json_heap_index *x, uint32_t file_id, uint32_t line)
{
	const uint64_t *at = fm_map_find(&x->lines, (uint64_t)file_id << 32 | line);
	if (!at)
		return NULL;
	x->line_is_done[*at] = true;
	return &x->heap->lines.items[*at];
}

const struct fm_heap_function_row *fm_json_heap_function(struct fm_json_heap_index *x, uint32_t function_id)
{
	uint32_t at = function_id < x->n_functions ? x->functions[function_id] : 0;
	if (!at)
		return NULL;
	x->function_is_done[at - 1] = true;
	return &x->heap->functions.items[at - 1];
}

static uint64_t plus_minus(double variance)
{
	return (uint64_t)(fm_heap_plus_minus(variance) + 0.5);
}

static double share(uint64_t part, uint64_t whole)
{
	return whole ? (double)FM_MIN(part, whole) / (double)whole : 0;
}

static void write_figures(struct fm_json *j, const struct fm_heap_figures *f)
{
	fm_json_u64(j, "alloc_bytes", f->alloc_bytes);
	fm_json_u64(j, "alloc_plus_minus_bytes", plus_minus(f->alloc_var));
	fm_json_u64(j, "allocs", f->n_allocs);
	fm_json_real(j, "alloc_python_share", share(f->python_bytes, f->alloc_bytes));
	fm_json_u64(j, "peak_bytes", f->peak_bytes);
	fm_json_u64(j, "peak_plus_minus_bytes", plus_minus(f->peak_var));
	fm_json_u64(j, "at_peak_bytes", f->at_peak_bytes);
	fm_json_u64(j, "untouched_bytes", f->untouched_bytes);
	fm_json_u64(j, "avg_bytes", f->avg_bytes);
	fm_json_u64(j, "live_bytes", f->live_bytes);
	fm_json_u64(j, "copy_bytes", f->copy_bytes);
}

void fm_json_line_memory(struct fm_json *j, const struct fm_heap_line_row *row)
{
	static const struct fm_heap_figures none;
	write_figures(j, row ? &row->f : &none);
	fm_json_array(j, "timeline_bytes");
	for (size_t i = 0; row && row->f.peak_bytes && i < FM_HEAP_LINE_BUCKETS; i++)
		fm_json_u64(j, NULL, row->timeline[i]);
	fm_json_end(j);
	fm_json_str(j, "types", row && row->types.p ? row->types : FM_STR_LIT(""));
}

void fm_json_function_memory(struct fm_json *j, const struct fm_heap_function_row *row)
{
	static const struct fm_heap_figures none;
	const struct fm_heap_figures *self = row ? &row->self : &none, *total = row ? &row->total : &none;
	fm_json_u64(j, "alloc_bytes", self->alloc_bytes);
	fm_json_u64(j, "peak_bytes", self->peak_bytes);
	fm_json_u64(j, "peak_plus_minus_bytes", plus_minus(self->peak_var));
	fm_json_u64(j, "at_peak_bytes", self->at_peak_bytes);
	fm_json_u64(j, "avg_bytes", self->avg_bytes);
	fm_json_u64(j, "live_bytes", self->live_bytes);
	fm_json_u64(j, "copy_bytes", self->copy_bytes);
	fm_json_u64(j, "total_alloc_bytes", total->alloc_bytes);
	fm_json_u64(j, "total_peak_bytes", total->peak_bytes);
}

static double seconds_in(const struct fm_heap *h, uint64_t time_ns)
{
	return time_ns > h->begin_ns ? fm_seconds(time_ns - h->begin_ns) : 0;
}

static void write_timeline(struct fm_json *j, const struct fm_heap *h)
{
	fm_json_array(j, "timeline");
	for (size_t i = 0; i < h->timeline.n; i++) {
		const struct fm_heap_point *p = &h->timeline.items[i];
		fm_json_newline(j);
		fm_json_object(j, NULL);
		fm_json_real(j, "t_s", seconds_in(h, p->time_ns));
		fm_json_u64(j, "heap_bytes", p->heap_bytes);
		fm_json_u64(j, "heap_high_bytes", p->heap_high_bytes);
		fm_json_u64(j, "rss_bytes", p->rss_bytes);
		fm_json_u64(j, "pss_bytes", p->pss_bytes);
		fm_json_u64(j, "swap_bytes", p->swap_bytes);
		fm_json_end(j);
	}
	fm_json_end(j);
}

// file, line and function; null where no Python code asked for the memory.
static void write_place(struct fm_json *j, const struct fm_analysis *a, uint32_t function_id, uint32_t file_id,
			uint32_t line)
{
	const struct fm_function *f = function_id != FM_NO_ID ? fm_analysis_function(a, function_id) : NULL;
	if (file_id != FM_NO_ID && f) {
		fm_json_str(j, "file", f->file);
		fm_json_u64(j, "line", line);
	} else {
		fm_json_null(j, "file");
		fm_json_null(j, "line");
	}
	if (f)
		fm_json_str(j, "function", f->name);
	else
		fm_json_str(j, "function", FM_STR_LIT("<no Python>"));
}

static void write_peaks(struct fm_json *j, const struct fm_analysis *a)
{
	const struct fm_heap *h = &a->heap;
	fm_json_array(j, "peaks");
	for (size_t i = 0; i < h->peaks.n; i++) {
		const struct fm_heap_peak *peak = &h->peaks.items[i];
		uint64_t rest = 0;
		fm_json_newline(j);
		fm_json_object(j, NULL);
		fm_json_real(j, "t_s", seconds_in(h, peak->time_ns));
		fm_json_u64(j, "bytes", peak->bytes);
		fm_json_array(j, "lines");
		for (uint32_t k = 0; k < peak->n_lines; k++) {
			const struct fm_heap_peak_line *line = &h->peak_lines.items[peak->first_line + k];
			if (k >= PEAK_LINES) {
				rest += line->bytes;
				continue;
			}
			fm_json_object(j, NULL);
			write_place(j, a, line->function_id, line->file_id, line->line);
			fm_json_u64(j, "bytes", line->bytes);
			fm_json_end(j);
		}
		fm_json_end(j);
		fm_json_u64(j, "other_lines_bytes", rest);
		fm_json_end(j);
	}
	fm_json_end(j);
}

static void write_reconciliation(struct fm_json *j, const struct fm_heap *h)
{
	const struct fm_heap_resident *r = &h->resident;
	if (!r->time_ns) {
		fm_json_null(j, "reconciliation");
		return;
	}
	fm_json_object(j, "reconciliation");
	fm_json_real(j, "t_s", seconds_in(h, r->time_ns));
	fm_json_u64(j, "rss_bytes", r->rss_bytes);
	fm_json_u64(j, "anon_bytes", r->anon_bytes);
	fm_json_u64(j, "file_bytes", r->file_bytes);
	fm_json_u64(j, "shmem_bytes", r->shmem_bytes);
	fm_json_u64(j, "swap_bytes", r->swap_bytes);
	fm_json_u64(j, "pss_bytes", r->pss_bytes);
	fm_json_u64(j, "python_heap_bytes", r->python_bytes);
	fm_json_u64(j, "native_heap_bytes", r->native_bytes);
	fm_json_u64(j, "mapped_bytes", r->mapped_bytes);
	fm_json_u64(j, "unexplained_bytes", r->unexplained_bytes);
	fm_json_u64(j, "untouched_bytes", r->untouched_bytes);
	fm_json_array(j, "owners");
	for (size_t i = 0; i < r->owners.n; i++) {
		fm_json_object(j, NULL);
		fm_json_str(j, "library", r->owners.items[i].library);
		fm_json_u64(j, "bytes", r->owners.items[i].bytes);
		fm_json_end(j);
	}
	fm_json_end(j);
	fm_json_end(j);
}

static void write_doubt(struct fm_json *j, const struct fm_analysis *a)
{
	const struct fm_heap_doubt *doubt = &a->heap.doubt;
	if (doubt->why == FM_HEAP_DOUBT_NONE) {
		fm_json_null(j, "undecided_leak");
		return;
	}
	fm_json_object(j, "undecided_leak");
	write_place(j, a, doubt->place.function_id, doubt->place.file_id, doubt->place.line);
	fm_json_u64(j, "bytes", doubt->place.bytes);
	fm_json_str(j, "why",
		    doubt->why == FM_HEAP_DOUBT_SHORT  ? FM_STR_LIT("short run")
		    : doubt->why == FM_HEAP_DOUBT_FEW  ? FM_STR_LIT("few blocks")
		    : doubt->why == FM_HEAP_DOUBT_POOL ? FM_STR_LIT("mappings")
						       : FM_STR_LIT("sums only"));
	fm_json_end(j);
}

void fm_json_memory(struct fm_json *j, const struct fm_analysis *a)
{
	const struct fm_heap *h = &a->heap;
	fm_json_object(j, "memory");
	fm_json_str(j, "mode",
		    !h->is_there  ? FM_STR_LIT("off")
		    : h->is_exact ? FM_STR_LIT("exact")
				  : FM_STR_LIT("sampled"));
	fm_json_u64(j, "peak_bytes", h->peak_bytes);
	fm_json_u64(j, "peak_plus_minus_bytes", plus_minus(h->peak_var));
	fm_json_u64(j, "untouched_bytes", h->untouched_bytes);
	fm_json_u64(j, "alloc_bytes", h->alloc_bytes);
	fm_json_u64(j, "alloc_plus_minus_bytes", plus_minus(h->alloc_var));
	fm_json_u64(j, "live_bytes", h->live_bytes);
	fm_json_u64(j, "copy_bytes", h->copy_bytes);
	fm_json_u64(j, "events", h->n_events);
	fm_json_u64(j, "mean_bytes", h->mean_bytes);
	fm_json_u64(j, "thinning", (uint64_t)1 << h->thinning); // small blocks that each kept one stands for
	fm_json_real(j, "growth_rate", h->growth_rate);
	fm_json_real(j, "slope_bytes_s", h->slope_bytes_s);
	if (h->cgroup_limit_bytes) {
		fm_json_u64(j, "cgroup_limit_bytes", h->cgroup_limit_bytes);
		fm_json_u64(j, "cgroup_headroom_bytes",
			    h->cgroup_limit_bytes - FM_MIN(h->max_cgroup_bytes, h->cgroup_limit_bytes));
	} else {
		fm_json_null(j, "cgroup_limit_bytes");
		fm_json_null(j, "cgroup_headroom_bytes");
	}
	struct fm_str killed = fm_profile_meta(a->profile, "out_of_memory", (struct fm_str){ "", 0 });
	if (killed.len)
		fm_json_str(j, "out_of_memory", killed);
	else
		fm_json_null(j, "out_of_memory");
	write_doubt(j, a);
	fm_json_newline(j);
	fm_json_object(j, "no_python");
	write_figures(j, &h->no_python);
	fm_json_end(j);
	fm_json_newline(j);
	write_reconciliation(j, h);
	fm_json_newline(j);
	write_peaks(j, a);
	fm_json_newline(j);
	write_timeline(j, h);
	fm_json_end(j);
}

uint64_t fm_json_max_rss(const struct fm_profile *p, uint32_t process_id)
{
	uint64_t most = 0;
	for (size_t i = 0; i < p->memory_levels.n; i++)
		if (p->memory_levels.items[i].process_id == process_id)
			most = FM_MAX(most, p->memory_levels.items[i].rss_bytes);
	return most;
}

void fm_json_leaks(struct fm_json *j, const struct fm_analysis *a)
{
	fm_json_array(j, "leaks");
	for (size_t i = 0; i < a->heap.leaks.n; i++) {
		const struct fm_heap_leak_row *row = &a->heap.leaks.items[i];
		fm_json_newline(j);
		fm_json_object(j, NULL);
		write_place(j, a, row->function_id, row->file_id, row->line);
		fm_json_real(j, "likelihood", row->likelihood);
		fm_json_real(j, "velocity_bytes_s", row->velocity_bytes_s);
		fm_json_real(j, "velocity_plus_minus_bytes_s", row->velocity_plus_minus_bytes_s);
		fm_json_u64(j, "bytes", row->bytes);
		fm_json_str(j, "types", row->types);
		fm_json_end(j);
	}
	fm_json_end(j);
}
