// SPDX-License-Identifier: Apache-2.0
#include "aggregate/analysis/filter.h"

#include <stdlib.h>
#include <string.h>

void fm_filter_deinit(struct fm_filter *f)
{
	fm_vec_deinit(&f->threads);
	*f = (struct fm_filter){ 0 };
}

void fm_filter_mark(struct fm_filter *f, uint32_t thread_id)
{
	fm_vec_grow_to(&f->threads, (size_t)thread_id + 1);
	f->threads.items[thread_id] = true;
}

bool fm_filter_is_empty(const struct fm_filter *f)
{
	return !f->from_ns && !f->to_ns && !f->has_threads && !f->threads.n;
}

struct filtering {
	const struct fm_filter *filter;
	struct fm_analysis *a;
};

static void on_samples(void *ctx, const struct fm_sample *samples, uint32_t n)
{
	const struct filtering *f = ctx;
	for (uint32_t i = 0; i < n; i++) {
		if (!fm_filter_takes(f->filter, &samples[i]) || !fm_analysis_knows(f->a->whole, &samples[i]))
			continue;
		struct fm_sample s = samples[i];
		s.stack_id = fm_workers_stack(f->a->workers, &s);
		fm_tally_add(&f->a->tally, &s, 1);
	}
}

enum fm_err fm_filter_apply(const struct fm_filter *filter, const struct fm_analysis *a, struct fm_analysis **ret,
			    struct fm_diag *diag)
{
	struct fm_analysis *counted = fm_alloc(sizeof(*counted));
	*counted = *a;
	counted->tally = (struct fm_tally){ 0 };
	counted->has_summary = false;
	counted->whole = a;
	struct filtering f = { filter, counted };
	const struct fm_observer observer = { .on_samples = on_samples, .ctx = &f };
	enum fm_err err = fm_reader_replay(a->reader, &observer, diag);
	if (err)
		fm_analysis_close(counted);
	else
		*ret = counted;
	return err;
}
