// SPDX-License-Identifier: Apache-2.0
#include "aggregate/analysis/analysis.h"

#include <stdlib.h>
#include <string.h>

#include "aggregate/analysis/filter.h"

enum fm_err fm_analysis_read(struct fm_reader *reader, const struct fm_view_options *options,
			     enum fm_analysis_parts parts, const struct fm_observer *observer, struct fm_analysis **ret,
			     struct fm_diag *diag)
{
	struct fm_analysis *a = fm_alloc(sizeof(*a));
	a->options = *options;
	a->reader = reader;
	a->path = options->called ? options->called : fm_reader_path(reader);
	a->profile = fm_reader_profile(reader);
	struct fm_observer observers[3];
	size_t n = 0;
	if (parts & FM_ANALYSIS_TOTALS)
		observers[n++] = fm_tally_observer(&a->tally);
	if (parts & FM_ANALYSIS_CALLS) {
		a->calls = fm_trace_stats_create(a->profile);
		observers[n++] = fm_trace_stats_observer(a->calls);
	}
	if (observer)
		observers[n++] = *observer;
	enum fm_err err = fm_reader_run(reader, observers, n);
	if (err)
		err = fm_diag_set(diag, err, "cannot read %s: %s", a->path, fm_err_text(err));
	if (!err && a->calls)
		fm_trace_stats_finish(a->calls);
	if (!err && (parts & FM_ANALYSIS_STACKS) == FM_ANALYSIS_STACKS)
		err = fm_analysis_add_stacks(a, diag);
	if (err) {
		fm_analysis_close(a);
		return err;
	}
	*ret = a;
	return FM_OK;
}

enum fm_err fm_analysis_add_stacks(struct fm_analysis *a, struct fm_diag *diag)
{
	if (a->symbolizer)
		return FM_OK;
	enum fm_err err = fm_workers_tie(a->reader, &a->tally, &a->workers, diag);
	if (err)
		return err;
	a->symbolizer = fm_symbolizer_create(a->profile, a->options.no_inlines);
	fm_view_build(&a->view, a->profile, &a->tally, a->symbolizer, &a->options);
	fm_heap_build(&a->heap, &a->tally, a->profile, &a->view, a->symbolizer, &a->options);
	return FM_OK;
}

void fm_analysis_add_heap_shares(const struct fm_analysis *a, const struct fm_heap_stack_rows *rows,
				 const struct fm_filter *filter, double *shares)
{
	double whole[FM_N_HEAP_KINDS] = { 0 };
	uint64_t bytes[FM_N_HEAP_KINDS];
	for (int pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < rows->n; i++) {
			const struct fm_heap_stack_row *row = &rows->items[i];
			if (filter && !fm_filter_takes_thread(filter, row->thread_id))
				continue;
			fm_heap_stack_bytes(row, bytes);
			double *share = &shares[fm_view_node(&a->view, row->stack_id)];
			for (int k = 0; k < FM_N_HEAP_KINDS; k++) {
				if (!pass)
					whole[k] += (double)bytes[k];
				else if (whole[k] > 0)
					*share += (double)bytes[k] / whole[k];
			}
		}
}

const struct fm_summary *fm_analysis_summary(struct fm_analysis *a)
{
	if (!a->has_summary)
		fm_summary_build(&a->own_summary, a->profile, &a->tally, &a->view, a->symbolizer, &a->options);
	a->has_summary = true;
	return &a->own_summary;
}

void fm_analysis_close(struct fm_analysis *a)
{
	if (!a)
		return;
	if (a->has_summary)
		fm_summary_deinit(&a->own_summary);
	fm_tally_deinit(&a->tally);
	if (!a->whole) {
		fm_trace_stats_destroy(a->calls);
		fm_heap_deinit(&a->heap);
		fm_view_deinit(&a->view);
		fm_symbolizer_destroy(a->symbolizer);
		fm_workers_destroy(a->workers);
		fm_reader_close(a->reader);
	}
	free(a);
}
