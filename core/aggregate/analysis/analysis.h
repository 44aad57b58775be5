// SPDX-License-Identifier: Apache-2.0
// A profile file, read and counted: what every output starts from.
#pragma once

#include "aggregate/heap/heap.h"
#include "aggregate/tree/summary.h"
#include "aggregate/tally/tally.h"
#include "aggregate/tally/workers.h"
#include "aggregate/tree/view.h"

struct fm_analysis {
	char *path;
	struct fm_view_options options;
	struct fm_reader *reader; // at its end; lends profile
	const struct fm_profile *profile;
	struct fm_tally tally;
	struct fm_workers *workers; // whose work native threads do; NULL = nobody's
	struct fm_symbolizer *symbolizer;
	struct fm_view view;
	struct fm_heap heap; // is_there tells whether memory was captured
};

// Reads the whole file once. One line in diag on failure; a damaged or cut-off file is no failure
// (profile->damage).
FM_MUST_CHECK enum fm_err fm_analysis_open(const char *path, const struct fm_view_options *options,
					   struct fm_analysis **ret, struct fm_diag *diag);
// The same, and the observer sees every event on the way.
FM_MUST_CHECK enum fm_err fm_analysis_open_observed(const char *path, const struct fm_view_options *options,
						    const struct fm_observer *observer, struct fm_analysis **ret,
						    struct fm_diag *diag);
// The path and options alone, for who reads the file by itself. Nothing else in it is there.
struct fm_analysis *fm_analysis_of_path(const char *path, const struct fm_view_options *options);
void fm_analysis_close(struct fm_analysis *a); // NULL is fine

// The node of a sample of the same file, wherever its thread works for another.
static inline uint32_t fm_analysis_node(const struct fm_analysis *a, const struct fm_sample *s)
{
	return fm_view_node(&a->view, fm_workers_stack(a->workers, s));
}

static inline const struct fm_function *fm_analysis_function(const struct fm_analysis *a, uint32_t function_id)
{
	return fm_symbolizer_function(a->symbolizer, function_id);
}
