// SPDX-License-Identifier: Apache-2.0
#include "aggregate/compare/diff.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/tree/student.h"

#define ALPHA 0.05

// A part that no sample fell into may still have had one: nothing sampled is surer than a single
// sample of all runs.
static void floor_variance(struct fm_mean *m, double one_sample_sq, unsigned n_runs)
{
	double least = n_runs ? one_sample_sq / n_runs / n_runs / n_runs : 0;
	if (m->var < least) {
		m->var = least;
		m->df = FM_STUDENT_NORMAL;
	}
}

static struct fm_change compare(const struct fm_mean *base, const struct fm_mean *new)
{
	struct fm_change c = { .base = *base, .new = *new, .p = 1, .delta = new->mean - base->mean };
	double var = base->var + new->var;
	if (var <= 0)
		return c; // two single measurements: nothing tells how sure they are
	// Welch and Satterthwaite: the two sides need not vary alike.
	double df = var * var / (base->var * base->var / base->df + new->var *new->var / new->df);
	c.plus_minus = fm_student_t(ALPHA, df) * sqrt(var);
	c.p = fm_student_p(c.delta / sqrt(var), df);
	c.is_significant = c.p < ALPHA;
	return c;
}

static struct fm_change compare_totals(const struct fm_figure *base, unsigned n_base, const struct fm_figure *new,
				       unsigned n_new)
{
	struct fm_mean b = fm_figure_mean(base, n_base), n = fm_figure_mean(new, n_new);
	if (n_base < 2 || n_new < 2) // one run does not tell how much runs differ
		b.var = n.var = 0;
	return compare(&b, &n);
}

struct rows {
	FM_VEC(struct fm_diff_row) v;
};

// One of the four lists.
struct list {
	const struct fm_runs *base, *new;
	bool is_line, is_memory, is_all;
};

static struct fm_mean mean_of(const struct list *l, const struct fm_runs *runs, const struct fm_run_row *row)
{
	static const struct fm_figure nothing = { 0 };
	const struct fm_figure *figure = !row ? &nothing : l->is_memory ? &row->peak_bytes : &row->seconds;
	struct fm_mean m = fm_figure_mean(figure, runs->n);
	floor_variance(&m, l->is_memory ? runs->block_sq : runs->sample_sq, runs->n);
	return m;
}

static double least_of(const struct list *l, const struct fm_runs *runs)
{
	return l->is_memory ? FM_DIFF_MIN_MEMORY_SHARE * fm_figure_mean(&runs->max_rss_bytes, runs->n).mean
			    : FM_DIFF_MIN_SHARE * fm_figure_mean(&runs->cpu_s, runs->n).mean;
}

static int compare_rows(const void *pa, const void *pb)
{
	const struct fm_diff_row *a = pa, *b = pb;
	double da = fabs(a->change.delta), db = fabs(b->change.delta);
	return (db > da) - (db < da);
}

static void build_rows(struct rows *ret, const struct list *l)
{
	*ret = (struct rows){ 0 };
	for (int side = 0; side < 2; side++) {
		const struct fm_runs *own = side ? l->base : l->new, *other = side ? l->new : l->base;
		const struct fm_run_row *rows = l->is_line ? own->lines.items : own->functions.items;
		size_t n = l->is_line ? own->lines.n : own->functions.n;
		for (size_t i = 0; i < n; i++) {
			const struct fm_run_row *match = fm_runs_find(other, &rows[i], l->is_line);
			if (side && match) // met from the other side
				continue;
			if (!l->is_all && !rows[i].is_users && !(match && match->is_users))
				continue;
			const struct fm_run_row *in_base = side ? &rows[i] : match, *in_new = side ? match : &rows[i];
			struct fm_mean base = mean_of(l, l->base, in_base), new = mean_of(l, l->new, in_new);
			struct fm_diff_row row = { in_new ? in_new : in_base, in_base, in_new, compare(&base, &new) };
			if (base.mean >= least_of(l, l->base) || new.mean >= least_of(l, l->new))
				fm_vec_push(&ret->v, row);
		}
	}
	// Among many comparisons some look significant by chance: each has to hold against all of
	// them (Bonferroni).
	for (size_t i = 0; i < ret->v.n; i++)
		ret->v.items[i].change.is_significant = ret->v.items[i].change.p * (double)ret->v.n < ALPHA;
	if (ret->v.n)
		qsort(ret->v.items, ret->v.n, sizeof(*ret->v.items), compare_rows);
}

void fm_diff_build(struct fm_diff *d, const struct fm_runs *base, const struct fm_runs *new, bool is_all)
{
	*d = (struct fm_diff){ .wall_s = compare_totals(&base->wall_s, base->n, &new->wall_s, new->n),
			       .cpu_s = compare_totals(&base->cpu_s, base->n, &new->cpu_s, new->n),
			       .max_rss_bytes =
				       compare_totals(&base->max_rss_bytes, base->n, &new->max_rss_bytes, new->n),
			       .is_sampling_only = base->n < 2 || new->n < 2 };
	bool has_memory = base->n_with_memory == base->n && new->n_with_memory == new->n;
	struct list list = { base, new, false, false, is_all };
	struct rows rows;
	build_rows(&rows, &list);
	memcpy(&d->functions, &rows.v, sizeof(rows.v));
	list.is_line = true;
	build_rows(&rows, &list);
	memcpy(&d->lines, &rows.v, sizeof(rows.v));
	if (!has_memory)
		return;
	list.is_memory = true;
	build_rows(&rows, &list);
	memcpy(&d->memory_lines, &rows.v, sizeof(rows.v));
	list.is_line = false;
	build_rows(&rows, &list);
	memcpy(&d->memory_functions, &rows.v, sizeof(rows.v));
}

void fm_diff_deinit(struct fm_diff *d)
{
	fm_vec_deinit(&d->functions);
	fm_vec_deinit(&d->lines);
	fm_vec_deinit(&d->memory_functions);
	fm_vec_deinit(&d->memory_lines);
}
