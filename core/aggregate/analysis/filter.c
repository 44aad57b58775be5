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

enum fm_err fm_filter_tally(const struct fm_filter *f, const struct fm_analysis *a, struct fm_tally *ret,
			    struct fm_diag *diag)
{
	struct fm_reader *r;
	enum fm_err err = fm_reader_open(a->path, &r, diag);
	if (err)
		return err;
	struct fm_tally tally = { 0 };
	struct fm_event event;
	while (!(err = fm_reader_next(r, &event)))
		if (event.type == FM_EVENT_SAMPLE && fm_filter_takes(f, &event.sample) &&
		    event.sample.stack_id < a->view.n_stacks && event.sample.thread_id < a->tally.threads.n) {
			event.sample.stack_id = fm_workers_stack(a->workers, &event.sample);
			fm_tally_add(&tally, &event.sample, 1);
		}
	fm_reader_close(r);
	if (err != FM_E_END) {
		fm_tally_deinit(&tally);
		return fm_diag_set(diag, err, "cannot read %s: %s", a->path, fm_err_text(err));
	}
	*ret = tally;
	return FM_OK;
}
