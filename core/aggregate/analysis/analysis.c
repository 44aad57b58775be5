// SPDX-License-Identifier: Apache-2.0
#include "aggregate/analysis/analysis.h"

#include <stdlib.h>
#include <string.h>

struct fm_analysis *fm_analysis_of_path(const char *path, const struct fm_view_options *options)
{
	struct fm_analysis *a = fm_alloc(sizeof(*a));
	a->path = fm_strdup_n(path, strlen(path));
	a->options = *options;
	return a;
}

enum fm_err fm_analysis_open(const char *path, const struct fm_view_options *options, struct fm_analysis **ret,
			     struct fm_diag *diag)
{
	return fm_analysis_open_observed(path, options, NULL, ret, diag);
}

enum fm_err fm_analysis_open_observed(const char *path, const struct fm_view_options *options,
				      const struct fm_observer *observer, struct fm_analysis **ret,
				      struct fm_diag *diag)
{
	struct fm_analysis *a = fm_analysis_of_path(path, options);
	enum fm_err err = fm_reader_open(path, &a->reader, diag);
	if (err) {
		a->reader = NULL;
		fm_analysis_close(a);
		return err;
	}
	err = fm_tally_read(&a->tally, a->reader, observer);
	if (err) {
		fm_analysis_close(a);
		return fm_diag_set(diag, err, "cannot read %s: %s", path, fm_err_text(err));
	}
	err = fm_workers_tie(path, a->reader, &a->tally, &a->workers, diag);
	if (err) {
		fm_analysis_close(a);
		return err;
	}
	a->profile = fm_reader_profile(a->reader);
	a->symbolizer = fm_symbolizer_create(a->profile, options->no_inlines);
	fm_view_build(&a->view, a->profile, &a->tally, a->symbolizer, options);
	fm_heap_build(&a->heap, &a->tally, a->profile, &a->view, a->symbolizer, options);
	*ret = a;
	return FM_OK;
}

void fm_analysis_close(struct fm_analysis *a)
{
	if (!a)
		return;
	fm_heap_deinit(&a->heap);
	fm_view_deinit(&a->view);
	fm_symbolizer_destroy(a->symbolizer);
	fm_workers_destroy(a->workers);
	fm_tally_deinit(&a->tally);
	fm_reader_close(a->reader);
	free(a->path);
	free(a);
}
