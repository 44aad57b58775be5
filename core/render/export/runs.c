// SPDX-License-Identifier: Apache-2.0
#include "render/export/runs.h"

#include <stdlib.h>

struct filling {
	const struct fm_analysis *a;
	const struct fm_runs_wanted *wanted;
	struct fm_spool *spool;
	enum fm_err err;
	struct fm_diag *diag;
};

static bool is_full(void *ctx)
{
	const struct filling *f = ctx;
	return f->err || f->spool->n_runs > f->wanted->max_runs;
}

static void add_samples(void *ctx, const struct fm_sample *samples, uint32_t n)
{
	struct filling *f = ctx;
	for (const struct fm_sample *s = samples; s < samples + n && !is_full(f); s++) {
		if (!fm_analysis_knows(f->a, s) || !fm_view_shows_class(&f->a->options, s->class))
			continue;
		if (f->wanted->thread_id != FM_NO_ID && s->thread_id != f->wanted->thread_id)
			continue;
		struct fm_run run = { fm_analysis_node(f->a, s), f->wanted->by_class ? s->class : 0, s->weight_ns,
				      s->time_ns };
		f->err = fm_spool_add(f->spool, s->thread_id, run, f->diag);
	}
}

enum fm_err fm_runs_fill(struct fm_spool *spool, const struct fm_analysis *a, const struct fm_runs_wanted *wanted,
			 struct fm_diag *diag)
{
	struct filling f = { a, wanted, spool, FM_OK, diag };
	const struct fm_observer observer = { .on_samples = add_samples, .is_done = is_full, .ctx = &f };
	spool->keeps_each = wanted->each;
	enum fm_err err = fm_reader_replay(a->reader, &observer, diag);
	if (err)
		return err;
	return spool->n_runs > wanted->max_runs ? FM_E_END : f.err;
}

static int compare_busy(const void *pa, const void *pb)
{
	const struct fm_busy *a = pa, *b = pb;
	if (a->weight_ns != b->weight_ns)
		return (b->weight_ns > a->weight_ns) - (b->weight_ns < a->weight_ns);
	return (a->thread_id > b->thread_id) - (a->thread_id < b->thread_id);
}

struct fm_busy *fm_runs_busiest(const struct fm_analysis *a, size_t *ret_n)
{
	struct fm_busy *threads = fm_alloc((a->tally.threads.n + 1) * sizeof(*threads));
	for (size_t i = 0; i < a->tally.cells.n; i++) {
		const struct fm_cell *cell = &a->tally.cells.items[i];
		if (fm_view_shows_class(&a->options, cell->class)) {
			threads[cell->thread_id].n += cell->n;
			threads[cell->thread_id].weight_ns += cell->weight_ns;
		}
	}
	size_t n = 0;
	for (uint32_t i = 0; i < a->tally.threads.n; i++)
		if (threads[i].n)
			threads[n++] = (struct fm_busy){ i, threads[i].n, threads[i].weight_ns };
	qsort(threads, n, sizeof(*threads), compare_busy);
	*ret_n = n;
	return threads;
}
