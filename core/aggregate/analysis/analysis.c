// SPDX-License-Identifier: Apache-2.0
#include "aggregate/analysis/analysis.h"

#include <stdlib.h>
#include <string.h>

enum fm_err fm_analysis_read(struct fm_reader *reader, const struct fm_view_options *options,
			     enum fm_analysis_parts parts, const struct fm_observer *observer, struct fm_analysis **ret,
			     struct fm_diag *diag)
{
	struct fm_analysis *a = fm_alloc(sizeof(*a));
	a->options = *options;
	a->reader = reader;
	a->path = fm_reader_path(reader);
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
