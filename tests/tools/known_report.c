// SPDX-License-Identifier: Apache-2.0
// Prints the text report of the profile of tests/support/known.h with memory figures filled in by
// hand, so that the layout of the memory columns has an expected text of its own:
//   known_report PROFILE WIDTH [--ascii]
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/analysis/analysis.h"
#include "render/shared/formats.h"
#include "support/open.h"

static uint32_t function_named(const struct fm_analysis *a, const char *name)
{
	for (uint32_t i = 0; i < fm_symbolizer_n_functions(a->symbolizer); i++)
		if (fm_str_eq(fm_analysis_function(a, i)->name, fm_str_of(name)))
			return i;
	fprintf(stderr, "known_report: the profile has no %s\n", name);
	exit(1);
}

static void add_line(struct fm_analysis *a, uint32_t function_id, uint32_t line, struct fm_heap_figures f)
{
	struct fm_heap_line_row row = { function_id, fm_analysis_function(a, function_id)->file_id, line, f, { 0 } };
	for (unsigned i = 0; i < FM_HEAP_LINE_BUCKETS; i++)
		row.timeline[i] = f.peak_bytes * (i + 1) / FM_HEAP_LINE_BUCKETS;
	fm_vec_push(&a->heap.lines, row);
}

static void fill(struct fm_analysis *a)
{
	struct fm_heap *h = &a->heap;
	const uint64_t mb = 1000000;
	uint32_t work = function_named(a, "App.work"), main_id = function_named(a, "main");
	h->is_there = true;
	h->peak_bytes = 150601000;
	h->alloc_bytes = 400 * mb;
	h->growth_rate = 0.25;
	struct fm_heap_figures at_23 = { .alloc_bytes = 300 * mb,
					 .python_bytes = 297 * mb,
					 .peak_bytes = 120 * mb,
					 .avg_bytes = 61 * mb,
					 .copy_bytes = 1185 * mb,
					 .peak_var = 9e12 };
	struct fm_heap_figures at_12 = { .alloc_bytes = 100 * mb, .peak_bytes = 30 * mb, .avg_bytes = 2 * mb };
	struct fm_heap_figures at_11 = { .alloc_bytes = 5 * mb,
					 .peak_bytes = 4200000 }; // memory, but no time of its own
	add_line(a, work, 23, at_23);
	add_line(a, main_id, 12, at_12);
	add_line(a, main_id, 11, at_11);
	fm_vec_push(&h->functions, (struct fm_heap_function_row){ work, at_23, at_23 });
	fm_vec_push(&h->functions, (struct fm_heap_function_row){ main_id, at_12, at_12 });
	fm_vec_push(&h->leaks, (struct fm_heap_leak_row){ work, fm_analysis_function(a, work)->file_id, 23, 0.96, 4e6,
							  1e6, 40 * mb, FM_STR_LIT("list, Node") });
	fm_vec_push(&h->leaks,
		    (struct fm_heap_leak_row){ FM_NO_ID, FM_NO_ID, 0, 0.5, 1e6, 1e6, 10 * mb, FM_STR_LIT("") });
	for (uint64_t i = 1; i <= 64; i++)
		fm_vec_push(&h->timeline,
			    (struct fm_heap_point){ .time_ns = i, .heap_high_bytes = i * h->peak_bytes / 64 });
}

int main(int argc, char **argv)
{
	struct fm_view_options options = FM_VIEW_OPTIONS_DEFAULT;
	struct fm_analysis *a;
	struct fm_diag diag;
	if (argc < 3) {
		fputs("usage: known_report PROFILE WIDTH [--ascii]\n", stderr);
		return 2;
	}
	options.width = (unsigned)atoi(argv[2]);
	options.utf8 = argc < 4;
	if (open_analysis(argv[1], &options, FM_ANALYSIS_STACKS, &a, &diag)) {
		fprintf(stderr, "known_report: %s\n", diag.text);
		return 1;
	}
	fill(a);
	int failed = fm_write_text(stdout, a, &diag) != FM_OK;
	fm_vec_deinit(&a->heap.lines);
	fm_vec_deinit(&a->heap.functions);
	fm_vec_deinit(&a->heap.leaks);
	fm_vec_deinit(&a->heap.timeline);
	fm_analysis_close(a);
	return failed;
}
