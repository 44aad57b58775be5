// SPDX-License-Identifier: Apache-2.0
// Means over runs, and what counts as a change.
#include "aggregate/compare/diff.h"

#include <math.h>

#include "aggregate/tree/student.h"
#include "draws.h"
#include "known_analysis.h"

static bool is_near(double a, double b, double tolerance)
{
	return fabs(a - b) <= tolerance;
}

// The known profile n times over.
static void fill(struct fm_runs *r, unsigned n)
{
	struct fm_analysis *a = open_known(&FM_VIEW_OPTIONS_DEFAULT);
	struct fm_summary t;
	fm_summary_build(&t, a->profile, &a->tally, &a->view, a->symbolizer, &a->options);
	struct fm_run_totals totals = {
		.wall_s = 11.847, .cpu_s = 10, .max_rss_bytes = 150e6, .command = FM_STR_LIT(""), .block_bytes = 131072
	};
	*r = (struct fm_runs){ 0 };
	for (unsigned i = 0; i < n; i++)
		fm_runs_add(r, a, &t, &totals);
	fm_summary_deinit(&t);
	fm_analysis_close(a);
}

static const struct fm_run_row *row_of(const struct fm_runs *r, const char *name)
{
	for (size_t i = 0; i < r->functions.n; i++)
		if (fm_str_eq(r->functions.items[i].name, fm_str_of(name)))
			return &r->functions.items[i];
	return NULL;
}

TEST(student_agrees_with_the_printed_tables)
{
	static const struct {
		double df, t;
	} table[] = {
		{ 1, 12.7062 }, { 2, 4.30265 }, { 4, 2.77645 }, { 10, 2.22814 }, { 30, 2.04227 }, { 120, 1.97993 }
	};
	for (size_t i = 0; i < FM_ARRAY_LEN(table); i++) {
		CHECK(is_near(fm_student_t(0.05, table[i].df), table[i].t, 1e-4 * table[i].t));
		CHECK(is_near(fm_student_p(table[i].t, table[i].df), 0.05, 1e-5));
	}
	CHECK(is_near(fm_student_t(0.05, FM_STUDENT_NORMAL), 1.95996, 5e-4));
	CHECK(is_near(fm_student_t(0.05, 5000), 1.9604, 1e-3));
	CHECK(is_near(fm_student_p(0, 3), 1, 1e-9));
	CHECK(is_near(fm_student_p(1, 1), 0.5, 1e-9)); // Cauchy: half of it lies within 1
}

TEST(the_mean_of_three_runs_has_the_interval_of_the_book)
{
	struct fm_figure f = { .sum = 1 + 2 + 3, .sum_sq = 1 + 4 + 9 };
	struct fm_mean m = fm_figure_mean(&f, 3);
	CHECK(is_near(m.mean, 2, 1e-12));
	CHECK(is_near(m.spread, 1, 1e-12));
	CHECK(is_near(m.plus_minus, 4.30265 / sqrt(3), 1e-4));
}

TEST(runs_that_agree_by_accident_are_no_surer_than_their_samples)
{
	struct fm_figure f = { .sum = 4, .sum_sq = 8, .sampling_var = 2 * 0.01 };
	struct fm_mean m = fm_figure_mean(&f, 2);
	CHECK(is_near(m.spread, 0, 1e-9));
	CHECK(is_near(m.plus_minus, 1.96 * sqrt(0.02 / 4), 1e-4));
}

TEST(equal_runs_do_not_differ)
{
	struct fm_runs base, new;
	fill(&base, 2);
	fill(&new, 3);
	CHECK(is_near(fm_figure_mean(&row_of(&base, "App.work")->seconds, base.n).mean, 7.5, 1e-9));
	struct fm_diff d;
	fm_diff_build(&d, &base, &new, true);
	CHECK(d.functions.n == 6 && d.lines.n == 4);
	for (size_t i = 0; i < d.functions.n; i++) {
		CHECK(is_near(d.functions.items[i].change.delta, 0, 1e-9));
		CHECK(!d.functions.items[i].change.is_significant);
	}
	fm_diff_deinit(&d);
	fm_diff_build(&d, &base, &new, false); // the user's own: main and App.work
	CHECK_EQ(d.functions.n, 2);
	fm_diff_deinit(&d);
	fm_runs_deinit(&base);
	fm_runs_deinit(&new);
}

TEST(a_function_that_is_new_is_significant_unless_it_is_a_sample_or_two)
{
	struct fm_runs base, new;
	fill(&base, 1);
	fill(&new, 1);
	static const struct {
		double seconds;
		bool expected;
	} cases[] = { { 0.021, false }, { 0.2, true } };
	for (size_t i = 0; i < FM_ARRAY_LEN(cases); i++) {
		// One sample of the known profile is 1 ms; this function has some in the new runs
		// alone.
		struct fm_run_row fresh = { .name = FM_STR_LIT("fresh"),
					    .file = FM_STR_LIT("app.py"),
					    .text = FM_STR_LIT(""),
					    .line = 1,
					    .is_users = true,
					    .seconds = { cases[i].seconds, cases[i].seconds * cases[i].seconds,
							 cases[i].seconds * 0.005 } };
		fm_vec_push(&new.functions, fresh);
		struct fm_diff d;
		fm_diff_build(&d, &base, &new, true);
		const struct fm_diff_row *found = NULL;
		for (size_t k = 0; k < d.functions.n; k++)
			if (fm_str_eq(d.functions.items[k].row->name, FM_STR_LIT("fresh")))
				found = &d.functions.items[k];
		CHECK(found && !found->is_in_base && found->is_in_new);
		CHECK(found->change.is_significant == cases[i].expected);
		fm_diff_deinit(&d);
		new.functions.n--;
	}
	fm_runs_deinit(&base);
	fm_runs_deinit(&new);
}

static void scatter(struct fm_runs *r, double shift)
{
	for (size_t i = 0; i < r->functions.n; i++) {
		struct fm_figure f = { 0 };
		for (unsigned k = 0; k < r->n; k++) {
			double x = 5 + shift + 0.1 * normal();
			f.sum += x;
			f.sum_sq += x * x;
		}
		r->functions.items[i].seconds = f;
	}
}

// Of 400 comparisons of equal programs, at most one in twenty may show any change at all; a real
// one of five spreads must be found.
TEST(chance_is_taken_for_a_change_as_seldom_as_is_said)
{
	struct fm_runs base, new;
	fill(&base, 5);
	fill(&new, 5);
	unsigned n_false = 0, n_missed = 0, n = 400;
	for (unsigned i = 0; i < 2 * n; i++) {
		scatter(&base, 0);
		scatter(&new, i < n ? 0 : 0.5);
		struct fm_diff d;
		fm_diff_build(&d, &base, &new, true);
		unsigned n_marked = 0;
		for (size_t k = 0; k < d.functions.n; k++)
			n_marked += d.functions.items[k].change.is_significant;
		if (i < n)
			n_false += n_marked > 0;
		else
			n_missed += n_marked < d.functions.n / 2;
		fm_diff_deinit(&d);
	}
	CHECK(n_false <= 20 + 3 * 4.4); // 20 expected, and three standard deviations
	CHECK_EQ(n_missed, 0);
	fm_runs_deinit(&base);
	fm_runs_deinit(&new);
}

TEST_MAIN()
