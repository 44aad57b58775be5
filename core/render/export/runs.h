// SPDX-License-Identifier: Apache-2.0
// The samples of a capture that an output shows, once more and by thread: what formats of stacks in
// order of time are written from.
#pragma once

#include "aggregate/analysis/analysis.h"
#include "render/export/spool.h"

struct fm_runs_wanted {
	uint32_t thread_id;  // of this one only; FM_NO_ID = all
	uint64_t max_runs;   // more are too many for whoever is going to read them
	bool by_class, each; // samples of different classes are kept apart; all samples are
};

// Into an empty spool. FM_E_END, without a line in diag: there are too many.
FM_MUST_CHECK enum fm_err fm_runs_fill(struct fm_spool *spool, const struct fm_analysis *a,
				       const struct fm_runs_wanted *wanted, struct fm_diag *diag);

// What a thread's samples of the classes that are shown add up to.
struct fm_busy {
	uint32_t thread_id;
	uint64_t n, weight_ns;
};
// Those with any, the busiest first; free() it.
struct fm_busy *fm_runs_busiest(const struct fm_analysis *a, size_t *ret_n);
