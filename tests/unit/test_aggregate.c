// SPDX-License-Identifier: Apache-2.0
#include "test.h"

#include <math.h>

#include "aggregate/analysis/analysis.h"
#include "aggregate/analysis/leaves.h"
#include "aggregate/tree/libraries.h"
#include "aggregate/tree/view.h"
#include "known_analysis.h"
#include "support/open.h"

static const struct fm_function_row *function(const struct fm_analysis *a, const struct fm_summary *t, const char *name)
{
	for (size_t i = 0; i < t->functions.n; i++)
		if (fm_str_eq(fm_analysis_function(a, t->functions.items[i].function_id)->name, fm_str_of(name)))
			return &t->functions.items[i];
	printf("no function %s\n", name);
	CHECK(false);
	return NULL;
}

static const struct fm_line_row *line(const struct fm_analysis *a, const struct fm_summary *t, const char *file,
				      uint32_t number)
{
	for (size_t i = 0; i < t->lines.n; i++)
		if (t->lines.items[i].line == number &&
		    fm_str_eq(fm_analysis_function(a, t->lines.items[i].function_id)->file, fm_str_of(file)))
			return &t->lines.items[i];
	return NULL;
}

#define MS(n) ((uint64_t)(n)*1000000)
#define APP "/home/user/app.py"
#define JSON "/usr/lib/python3.9/json/__init__.py"

static void build(struct fm_summary *t, const struct fm_analysis *a)
{
	fm_summary_build(t, a->profile, &a->tally, &a->view, a->symbolizer, &a->options);
}

TEST(totals_are_exact)
{
	struct fm_analysis *a = open_known(&FM_VIEW_OPTIONS_DEFAULT);
	struct fm_summary t;
	build(&t, a);
	CHECK_EQ(a->tally.n_samples, 10300);
	CHECK_EQ(t.total.n, 10000); // waiting is no CPU sample
	CHECK_EQ(t.total.ns[FM_CLASS_PYTHON], MS(5300));
	CHECK_EQ(t.total.ns[FM_CLASS_NATIVE], MS(4000));
	CHECK_EQ(t.total.ns[FM_CLASS_SYSTEM], MS(500));
	CHECK_EQ(t.total.ns[FM_CLASS_GC], MS(200));
	CHECK_EQ(t.total.ns[FM_CLASS_GIL_WAIT], MS(300));
	CHECK_EQ(fm_weight_cpu_ns(&t.total), MS(10000));
	CHECK_EQ(fm_weight_cpu_ns(&t.outside_python), MS(1000));
	CHECK_EQ(t.n_failed_unwinds, 500);
	fm_summary_deinit(&t);
	fm_analysis_close(a);
}

TEST(a_function_counts_once_per_stack_however_deep_it_recurses)
{
	struct fm_analysis *a = open_known(&FM_VIEW_OPTIONS_DEFAULT);
	struct fm_summary t;
	build(&t, a);
	const struct fm_function_row *work = function(a, &t, "App.work"), *main_row = function(a, &t, "main"),
				     *kernel = function(a, &t, "0x4001"), *dumps = function(a, &t, "dumps");
	CHECK_EQ(fm_weight_cpu_ns(&work->total), MS(4000 + 3000 + 500));
	CHECK_EQ(fm_weight_cpu_ns(&work->self), MS(4000 + 500));
	CHECK_EQ(work->charged.ns[FM_CLASS_PYTHON], MS(4500));
	CHECK_EQ(work->charged.ns[FM_CLASS_NATIVE], MS(3000)); // the kernel it called
	CHECK_EQ(work->total.ns[FM_CLASS_GIL_WAIT], MS(300));
	CHECK_EQ(fm_weight_cpu_ns(&main_row->total), MS(9000));
	CHECK_EQ(fm_weight_cpu_ns(&main_row->self), MS(500));
	CHECK_EQ(fm_weight_cpu_ns(&kernel->total), MS(4000));
	CHECK_EQ(fm_weight_cpu_ns(&kernel->self), MS(4000));
	CHECK_EQ(fm_weight_cpu_ns(&dumps->self), MS(1000));
	CHECK_EQ(dumps->charged.ns[FM_CLASS_GC], MS(200));
	CHECK(&t.functions.items[0] == main_row); // most total first
	CHECK_EQ(t.functions.n, 6); // main, work, dumps, kernel, start, the error; the interpreter is folded away
	fm_summary_deinit(&t);
	fm_analysis_close(a);
}

TEST(what_functions_pay_is_the_sum_of_their_lines)
{
	struct fm_analysis *a = open_known(&FM_VIEW_OPTIONS_DEFAULT);
	struct fm_summary t;
	build(&t, a);
	const struct fm_function_row *work = function(a, &t, "App.work"), *main_row = function(a, &t, "main"),
				     *dumps = function(a, &t, "dumps");
	CHECK_EQ(fm_weight_cpu_ns(&work->paid), MS(4000 + 3000 + 500));
	CHECK_EQ(fm_weight_cpu_ns(&main_row->paid), MS(1000 + 500)); // json.dumps is charged to its caller
	CHECK_EQ(fm_weight_cpu_ns(&dumps->paid), 0);
	CHECK(fm_summary_is_users(&t, work->function_id));
	CHECK(!fm_summary_is_users(&t, dumps->function_id));
	fm_summary_deinit(&t);
	fm_analysis_close(a);
}

TEST(lines_pay_for_the_native_code_and_libraries_they_call)
{
	struct fm_analysis *a = open_known(&FM_VIEW_OPTIONS_DEFAULT);
	struct fm_summary t;
	build(&t, a);
	CHECK_EQ(line(a, &t, APP, 21)->weight.ns[FM_CLASS_PYTHON], MS(4000));
	CHECK_EQ(line(a, &t, APP, 22)->weight.ns[FM_CLASS_NATIVE], MS(3000));
	CHECK_EQ(line(a, &t, APP, 22)->weight.ns[FM_CLASS_PYTHON], 0);
	CHECK_EQ(line(a, &t, APP, 23)->weight.ns[FM_CLASS_PYTHON], MS(500));
	CHECK_EQ(line(a, &t, APP, 12)->weight.ns[FM_CLASS_PYTHON], MS(800)); // json.dumps, called from there
	CHECK_EQ(line(a, &t, APP, 12)->weight.ns[FM_CLASS_GC], MS(200));
	CHECK_EQ(line(a, &t, APP, 12)->weight.ns[FM_CLASS_SYSTEM], MS(500));
	CHECK(!line(a, &t, JSON, 5));
	CHECK_EQ(t.lines.n, 4);
	fm_summary_deinit(&t);
	fm_analysis_close(a);

	struct fm_view_options detailed = FM_VIEW_OPTIONS_DEFAULT;
	detailed.detailed = true;
	a = open_known(&detailed);
	build(&t, a);
	CHECK_EQ(line(a, &t, JSON, 5)->weight.ns[FM_CLASS_PYTHON], MS(800));
	CHECK_EQ(line(a, &t, APP, 12)->weight.ns[FM_CLASS_PYTHON], 0);
	fm_summary_deinit(&t);
	fm_analysis_close(a);
}

TEST(threads_and_processes_add_up)
{
	struct fm_analysis *a = open_known(&FM_VIEW_OPTIONS_DEFAULT);
	struct fm_summary t;
	build(&t, a);
	CHECK_EQ(t.threads.n, 3);
	CHECK_EQ(t.threads.items[0].thread_id, 0);
	CHECK_EQ(fm_weight_cpu_ns(&t.threads.items[0].weight), MS(8500));
	CHECK_EQ(t.threads.items[0].n, 8800);
	CHECK_EQ(fm_weight_cpu_ns(&t.threads.items[1].weight), MS(1000));
	CHECK_EQ(fm_weight_cpu_ns(&t.processes.items[0].weight), MS(9500));
	CHECK_EQ(fm_weight_cpu_ns(&t.processes.items[1].weight), MS(500));
	CHECK_EQ(t.processes.items[0].n_threads, 2);
	fm_summary_deinit(&t);
	fm_analysis_close(a);
}

// Equal weights make the interval the binomial one: 1.96 sqrt(N p (1 - p)) samples.
TEST(plus_minus_is_the_binomial_interval_for_equal_weights)
{
	struct fm_analysis *a = open_known(&FM_VIEW_OPTIONS_DEFAULT);
	struct fm_summary t;
	build(&t, a);
	double expected = 1.96 * sqrt(10000 * 0.3 * 0.7) * 1e-3;
	CHECK(fabs(fm_summary_plus_minus_s(&t, &line(a, &t, APP, 22)->weight) - expected) < 1e-9);
	CHECK(fm_summary_plus_minus_s(&t, &t.total) == 0); // the whole is not estimated from a share
	struct fm_weight none = { { 0 } };
	CHECK(fm_summary_plus_minus_s(&t, &none) == 0);
	fm_summary_deinit(&t);
	fm_analysis_close(a);
}

TEST(what_sampling_disturbs_is_in_the_interval)
{
	struct fm_analysis *a = open_known(&FM_VIEW_OPTIONS_DEFAULT);
	struct fm_summary t;
	build(&t, a);
	const struct fm_weight *part = &line(a, &t, APP, 22)->weight; // 30 %
	double chance = fm_summary_plus_minus_s(&t, part);
	t.misplaced_s = 1.3;
	CHECK(fabs(fm_summary_plus_minus_s(&t, part) - (chance + 2 * 0.3 * 0.7 * 1.3)) < 1e-9);
	CHECK(fm_summary_plus_minus_s(&t, &t.total) == 0); // it is somewhere in the whole
	fm_summary_deinit(&t);
	fm_analysis_close(a);
}

static void set_meta(const struct fm_analysis *a, const char *key, const char *value)
{
	struct fm_profile *p = (struct fm_profile *)(uintptr_t)a->profile;
	for (size_t i = 0; i < p->metas.n; i++)
		if (fm_str_eq(p->metas.items[i].key, fm_str_of(key))) {
			p->metas.items[i].value = fm_str_of(value);
			return;
		}
	fm_vec_push(&p->metas, (struct fm_meta){ fm_str_of(key), fm_str_of(value) });
}

// Half a second was called system time. Up to what ticks cost, and 8 ms of lag, of that may be the
// code's before the calls.
TEST(what_may_pass_for_a_calls_own_time_is_misplaced)
{
	static const struct {
		const char *disturbed_ns, *n_displaced;
		double misplaced_s;
	} cases[] = {
		{ "20000000", "0", 0.020 + 0.020 + 0.008 },
		{ "20000000", "30", 0.020 + 0.020 + 0.008 + 0.030 }, // samples of 1 ms
		{ "900000000", "0", 0.9 + 0.5 },                     // all of it may
	};
	for (size_t i = 0; i < FM_ARRAY_LEN(cases); i++) {
		struct fm_analysis *a = open_known(&FM_VIEW_OPTIONS_DEFAULT);
		struct fm_summary t;
		set_meta(a, "n_taken", "10000");
		set_meta(a, "disturbed_ns", cases[i].disturbed_ns);
		set_meta(a, "n_displaced", cases[i].n_displaced);
		build(&t, a);
		CHECK(fabs(t.misplaced_s - cases[i].misplaced_s) < 1e-9);
		fm_summary_deinit(&t);
		fm_analysis_close(a);
	}
}

static double draw(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (double)(*state >> 11) * 0x1p-53;
}

// Two parts by turns of 50 to 200 us, each between two calls that read a clock, and ticks of 10 kHz
// whose signals are late_s on their way: one that meets a call on its way is shown there. The
// handler's rule is sigsafe/tick/tick.c's: as long as the kernel's account has room, the call used
// the time itself. A tick is on that account with tick_s, and is taken to cost 2 us.
static bool is_late_part_within(uint64_t *random, double late_s, double tick_s, double *ret_error)
{
	const double RUN_S = 1.5, CALL_S = 0.4e-6, LAG_S = 0.008;
	double now = 0, tick = 0, shown = 0, truth = 0, shown_sq = 0, whole = 0, whole_sq = 0, system = 0, account = 0;
	unsigned n = 0, n_displaced = 0;
	for (unsigned part = 0; now < RUN_S; part = !part) {
		double end = now + 50e-6 + 150e-6 * draw(random);
		truth += part ? end - now : 0;
		account += CALL_S;
		while (tick < end) {
			bool is_at_call = tick + late_s >= end;
			double weight = 50e-6 + 100e-6 * draw(random);
			account += tick_s;
			if (is_at_call && system + weight <= account + LAG_S)
				system += weight;
			else if (is_at_call)
				n_displaced++;
			else if (part)
				shown += weight, shown_sq += weight * weight;
			whole += weight, whole_sq += weight * weight;
			n++;
			tick += weight;
		}
		now = end + CALL_S;
	}
	double misplaced_s = fm_misplaced_s(n * 2e-6, whole * n_displaced / n, system, fmin(system, LAG_S));
	double within_s = fm_plus_minus_s(shown, shown_sq, shown / whole, whole, whole_sq, 0, misplaced_s);
	*ret_error = shown / truth - 1;
	return fabs(shown - truth) <= within_s;
}

TEST(parts_that_lose_their_ends_to_calls_are_within_their_interval)
{
	uint64_t random = 7;
	for (unsigned k = 0; k < 8; k++) {
		unsigned n_within = 0, late_us = k / 2 * 4;
		double error = 0, one;
		for (unsigned i = 0; i < 200; i++) {
			n_within += is_late_part_within(&random, late_us * 1e-6, k % 2 ? 4e-6 : 1e-6, &one);
			error += one / 200;
		}
		// Of a mean turn of 125 us the last late_us are lost.
		CHECK(fabs(error + late_us / 125.0) < 0.01);
		CHECK(n_within >= 185); // of 200 at 95 %: fewer once in some 1,000 times
	}
}

TEST(a_sample_for_a_long_gap_widens_the_intervals_of_all_it_may_belong_to)
{
	// 110 and 710 samples of 1 ms, and one of 180 ms, which fell to the first.
	double gap = 0.18, sq = 1e-6, whole_sq = 820 * sq + gap * gap;
	CHECK(fm_plus_minus_s(0.29, 110 * sq + gap * gap, 0.11, 1, whole_sq, 0, 0) > gap);
	CHECK(fm_plus_minus_s(0.71, 710 * sq, 0.71, 1, whole_sq, 0, 0) > gap);
	// And of one that none of the gaps fell to: it might have.
	CHECK(fm_plus_minus_s(0.1, 100 * sq, 0.1, 1, whole_sq, 0, 0) < gap / 2);
	CHECK(fm_plus_minus_s(0.1, 100 * sq, 0.1, 1, whole_sq, gap * gap, 0) > gap / 2);
}

// A program that is in one function for that much of its time, and a collector that starves: so many
// of 100 samples stand for 50 periods each. How often the interval covers what is true.
static double covered(unsigned n_heavy, double share)
{
	unsigned n_covered = 0;
	const unsigned n_runs = 20000;
	for (unsigned run = 0; run < n_runs; run++) {
		struct fm_summary t = { 0 };
		struct fm_weight part = { 0 };
		for (unsigned i = 0; i < 100; i++) {
			uint64_t ns = i < n_heavy ? 50000000 : 1000000;
			struct fm_weight one = { .ns[FM_CLASS_PYTHON] = ns,
						 .n = 1,
						 .cpu_sq = fm_seconds(ns) * fm_seconds(ns) };
			fm_weight_add(&t.total, &one);
			t.heavy_sq += fm_weight_is_gap(ns, FM_CLASS_PYTHON) ? one.cpu_sq : 0;
			if (rand() % 1000 < 1000 * share)
				fm_weight_add(&part, &one);
		}
		double error_s = fm_seconds(fm_weight_cpu_ns(&part)) - share * fm_seconds(fm_weight_cpu_ns(&t.total));
		n_covered += fabs(error_s) <= fm_summary_plus_minus_s(&t, &part);
	}
	return (double)n_covered / n_runs;
}

TEST(a_few_samples_that_stand_for_most_of_the_time_widen_the_interval)
{
	CHECK(covered(0, 0.3) > 0.93);
	CHECK(covered(100, 0.3) > 0.93);
	CHECK(covered(1, 0.3) > 0.95); // 0.85 by the share of the time alone
	CHECK(covered(4, 0.3) > 0.95); // 0.86, and 0.72
	CHECK(covered(20, 0.3) > 0.93);
	CHECK(covered(4, 0.1) > 0.95); // 0.67 by the squares of its own samples: often none of the four is its
}

static unsigned depth_of_deepest(const struct fm_analysis *a)
{
	unsigned deepest = 0;
	for (size_t i = 0; i < a->tally.cells.n; i++)
		deepest = FM_MAX(deepest,
				 a->view.nodes.items[fm_view_node(&a->view, a->tally.cells.items[i].stack_id)].depth);
	return deepest;
}

TEST(views_fold_what_they_say)
{
	struct fm_view_options o = FM_VIEW_OPTIONS_DEFAULT;
	struct fm_analysis *a = open_known(&o);
	CHECK_EQ(depth_of_deepest(a), 4); // D: main, work, work, work
	CHECK_EQ(a->view.nodes.items[fm_view_node(&a->view, a->tally.cells.items[1].stack_id)].depth,
		 3); // B: main, work, kernel
	fm_analysis_close(a);
	o.native_all = true;
	a = open_known(&o);
	CHECK_EQ(depth_of_deepest(a), 6);
	fm_analysis_close(a);
	o.native_all = false;
	o.python_only = true;
	a = open_known(&o);
	CHECK_EQ(a->view.nodes.items[fm_view_node(&a->view, a->tally.cells.items[1].stack_id)].depth,
		 2); // B without its kernel
	CHECK_EQ(a->view.nodes.items[fm_view_node(&a->view, a->tally.cells.items[2].stack_id)].depth,
		 2); // E has no Python: whole
	fm_analysis_close(a);
}

TEST(leaves_sum_to_the_samples_that_are_shown)
{
	static const struct {
		bool threads, gil_only, idle;
		uint64_t n;
	} cases[] = { { false, false, false, 10000 },
		      { true, false, false, 10000 },
		      { false, true, false, 5500 },
		      { false, false, true, 10300 } };
	for (size_t c = 0; c < FM_ARRAY_LEN(cases); c++) {
		struct fm_view_options o = FM_VIEW_OPTIONS_DEFAULT;
		o.threads = cases[c].threads;
		o.gil_only = cases[c].gil_only;
		o.idle = cases[c].idle;
		struct fm_analysis *a = open_known(&o);
		struct fm_leaves leaves;
		fm_leaves_build(&leaves, a->profile, &a->tally, &a->view, &o);
		uint64_t n = 0;
		for (size_t i = 0; i < leaves.items.n; i++)
			n += leaves.items.items[i].n;
		CHECK_EQ(n, cases[c].n);
		fm_leaves_deinit(&leaves);
		fm_analysis_close(a);
	}
}

TEST(a_path_keeps_what_two_stacks_share)
{
	struct fm_analysis *a = open_known(&FM_VIEW_OPTIONS_DEFAULT);
	struct fm_path path = { 0 };
	uint32_t node_a = fm_view_node(&a->view, a->tally.cells.items[0].stack_id),
		 node_b = fm_view_node(&a->view, a->tally.cells.items[1].stack_id);
	CHECK_EQ(fm_path_move(&path, &a->view, node_a), 0);
	CHECK_EQ(path.nodes.n, 2);
	CHECK_EQ(fm_path_move(&path, &a->view, node_a), 2);
	CHECK_EQ(fm_path_move(&path, &a->view, node_b), 1); // main:11
	CHECK_EQ(path.nodes.n, 3);
	CHECK_EQ(fm_path_move(&path, &a->view, 0), 0);
	CHECK_EQ(path.nodes.n, 0);
	fm_path_deinit(&path);
	fm_analysis_close(a);
}

TEST(tally_keeps_threads_and_classes_apart_and_counts_nonsense)
{
	struct fm_tally t = { 0 };
	for (uint32_t i = 0; i < 100000; i++)
		fm_tally_add(&t, &(struct fm_sample){ i % 7, i % 11, i, 1000, 0, (uint8_t)(i % 3) }, 1);
	CHECK_EQ(t.cells.n, 7 * 11 * 3);
	fm_tally_add(&t, &(struct fm_sample){ 0, 0, 0, 1, 0, FM_N_CLASSES }, 1);
	fm_tally_add(&t, &(struct fm_sample){ UINT32_MAX, 0, 0, 1, 0, 0 }, 1);
	fm_tally_add(&t, &(struct fm_sample){ 0, UINT32_MAX, 0, 1, 0, 0 }, 1);
	CHECK_EQ(t.n_invalid, 3);
	CHECK_EQ(t.n_samples, 100000);
	uint64_t n = 0;
	for (size_t i = 0; i < t.cells.n; i++)
		n += t.cells.items[i].n;
	CHECK_EQ(n, 100000);
	fm_tally_deinit(&t);
}

// An image that is gone, with what the capture noted of it: outer() with inner() inlined, which
// once is called for real.
//   outer + inner      7 samples
//   outer              2 samples
//   inner              1 sample
static struct fm_analysis *open_inlined(const struct fm_view_options *options)
{
	const char *path = scratch_file();
	struct fm_writer *w;
	struct fm_diag diag;
	CHECK_EQ(fm_writer_open(path, &w, &diag), FM_OK);
	struct fm_process_info info = { .pid = 1 };
	uint32_t thread = fm_writer_thread(w, fm_writer_process(w, &info), 1, 0);
	uint32_t image = fm_writer_image(w, FM_STR_LIT("/nonexistent/lib.so"), FM_STR_LIT("\1\2\3\4"), 0);
	const struct fm_symbol_link links[] = { { FM_STR_LIT("outer"), FM_STR_LIT("/src/a.c"), 10, 15, false },
						{ FM_STR_LIT("inner"), FM_STR_LIT("/src/b.h"), 3, 4, true },
						{ FM_STR_LIT("inner"), FM_STR_LIT("/src/b.h"), 3, 5, false } };
	fm_writer_symbol(w, image, 0x100, links, 2);
	fm_writer_symbol(w, image, 0x200, links, 1);
	fm_writer_symbol(w, image, 0x300, links + 2, 1);
	uint64_t time_ns = 0;
	static const unsigned n_samples[] = { 7, 2, 1 };
	for (unsigned i = 0; i < 3; i++) {
		uint32_t frame = fm_writer_frame(w, FM_FRAME_NATIVE, image, 0x100 * (i + 1));
		known_samples(w, &time_ns, thread, fm_writer_stack(w, FM_ROOT_STACK, frame), FM_CLASS_NATIVE,
			      n_samples[i]);
	}
	CHECK_EQ(fm_writer_close(w, &diag), FM_OK);
	struct fm_analysis *a;
	CHECK_EQ(open_analysis(path, options, FM_ANALYSIS_STACKS, &a, &diag), FM_OK);
	return a;
}

TEST(an_inlined_function_has_its_own_time_and_the_one_around_it_the_total)
{
	setenv("XDG_CACHE_HOME", "/dev/null", 1);
	struct fm_analysis *a = open_inlined(&FM_VIEW_OPTIONS_DEFAULT);
	struct fm_summary t;
	build(&t, a);
	const struct fm_function_row *outer = function(a, &t, "outer"), *inner = function(a, &t, "inner");
	CHECK_EQ(t.functions.n, 2); // inlined or not, it is one function
	CHECK_EQ(fm_weight_cpu_ns(&outer->self), MS(2));
	CHECK_EQ(fm_weight_cpu_ns(&outer->total), MS(9));
	CHECK_EQ(fm_weight_cpu_ns(&inner->self), MS(8));
	CHECK_EQ(fm_weight_cpu_ns(&inner->total), MS(8));
	CHECK(!outer->is_always_inlined && !inner->is_always_inlined);
	CHECK_EQ(a->view.nodes.n, 1 + 3);
	size_t n;
	const struct fm_coverage *coverage = fm_symbolizer_coverage(a->symbolizer, &n);
	CHECK_EQ(n, 1);
	CHECK(memmem(coverage[0].why.p, coverage[0].why.len, "recorded with the capture", 25));
	struct fm_libraries l;
	fm_libraries_build(&l, &a->tally, &a->view, a->symbolizer);
	CHECK_EQ(l.rows.n, 1);
	CHECK(l.rows.items[0].share == 1 && l.rows.items[0].named_share == 1 && l.rows.items[0].lines_share == 1);
	fm_libraries_deinit(&l);
	fm_summary_deinit(&t);
	fm_analysis_close(a);
}

TEST(folded_inlines_belong_to_the_function_around_them)
{
	setenv("XDG_CACHE_HOME", "/dev/null", 1);
	struct fm_view_options options = FM_VIEW_OPTIONS_DEFAULT;
	options.no_inlines = true;
	struct fm_analysis *a = open_inlined(&options);
	struct fm_summary t;
	build(&t, a);
	CHECK_EQ(fm_weight_cpu_ns(&function(a, &t, "outer")->self), MS(9));
	CHECK_EQ(fm_weight_cpu_ns(&function(a, &t, "inner")->self), MS(1));
	CHECK_EQ(a->view.nodes.n, 1 + 2);
	fm_summary_deinit(&t);
	fm_analysis_close(a);
}

TEST_MAIN()
