// SPDX-License-Identifier: Apache-2.0
// Which samples count: a range of time and a choice of threads. What the viewer's page limits
// everything else to.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "aggregate/analysis/analysis.h"

struct fm_filter {
	uint64_t from_ns, to_ns; // from <= time < to, on the clock of the samples; to 0 = no end
	bool has_threads;        // only those marked below; otherwise all but those marked
	FM_VEC(bool) threads;    // by thread id; what is beyond the end is not marked
};

void fm_filter_deinit(struct fm_filter *f);
void fm_filter_mark(struct fm_filter *f, uint32_t thread_id);
bool fm_filter_is_empty(const struct fm_filter *f); // nothing is left out

static inline bool fm_filter_takes_thread(const struct fm_filter *f, uint32_t thread_id)
{
	bool is_marked = thread_id < f->threads.n && f->threads.items[thread_id];
	return is_marked == f->has_threads;
}

static inline bool fm_filter_takes(const struct fm_filter *f, const struct fm_sample *s)
{
	return s->time_ns >= f->from_ns && (!f->to_ns || s->time_ns < f->to_ns) &&
	       fm_filter_takes_thread(f, s->thread_id);
}

// The same capture of which only the samples that pass are counted, by a replay. `a` lends it the
// rest, and is closed after it. One line in diag on failure.
FM_MUST_CHECK enum fm_err fm_filter_apply(const struct fm_filter *f, const struct fm_analysis *a,
					  struct fm_analysis **ret, struct fm_diag *diag);
