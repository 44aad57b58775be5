// SPDX-License-Identifier: Apache-2.0
// fathom check: a gate for CI on what changed between two captures, or two sets of repeated ones.
#include "base/log.h"
#include "cli/options/options.h"
#include "cli/commands/commands.h"
#include "render/shared/compare.h"

// A slowdown beyond the limit counts when it is one: with several runs its interval must not reach
// down to no change.
static bool is_beyond(const struct fm_change *c, double max_pct, bool is_sampling_only)
{
	double pct = c->base.mean > 0 ? 100 * c->delta / c->base.mean : 0;
	return pct > max_pct && (is_sampling_only || c->delta > c->plus_minus);
}

static void describe(struct fm_buf *b, const char *what, const struct fm_change *c, double max_pct)
{
	fm_buf_printf(b, "%s%s grew by %.1f%%", b->len ? "; " : "", what, 100 * c->delta / c->base.mean);
	if (c->plus_minus > 0)
		fm_buf_printf(b, " +-%.1f", 100 * c->plus_minus / c->base.mean);
	fm_buf_printf(b, " (limit %g%%)", max_pct);
}

static void print_passed(const char *what, const struct fm_change *c, double max_pct)
{
	double pct = c->base.mean > 0 ? 100 * c->delta / c->base.mean : 0;
	printf("%s changed by %+.1f%%", what, pct);
	if (c->plus_minus > 0 && c->base.mean > 0)
		printf(" +-%.1f", 100 * c->plus_minus / c->base.mean);
	printf(", from %.3f s to %.3f s: ", c->base.mean, c->new.mean);
	if (pct > max_pct)
		printf("above the limit of %g%%, but the runs differ too much to call it a change; use more runs "
		       "(--repeat) or a quieter machine.\n",
		       max_pct);
	else
		printf("within the limit of %g%%.\n", max_pct);
}

int fm_cmd_check(int argc, char **argv)
{
	struct fm_view_options view = FM_VIEW_OPTIONS_DEFAULT;
	const char *metric = "cpu";
	double max_slowdown = 5, max_growth = -1;
	const struct fm_option options[] = {
		{ "max-slowdown", 0, FM_OPT_REAL, &max_slowdown, "PCT", "how much slower NEW may be (default 5%)" },
		{ "max-growth", 0, FM_OPT_REAL, &max_growth, "PCT",
		  "how much more memory (peak RAM) NEW may use (default: no limit)" },
		{ "metric", 0, FM_OPT_CHOICE, &metric, "cpu|wall",
		  "what to compare: CPU time (default), which depends less on other load, or wall time" },
		{ 0 },
	};
	const struct fm_usage usage = {
		.command = "check",
		.operands = "BASE NEW",
		.about = "A gate for CI: exit code 1 and one line when NEW is slower than BASE by more than the limit. "
			 "With "
			 "repeated runs (fathom run --repeat 5) on both sides, only a slowdown that chance does not "
			 "explain fails.",
		.options = options,
		.examples = "  fathom check base.fathom new.fathom --max-slowdown 5%\n"
			    "  fathom check results/base results/new --max-slowdown 3% --max-growth 10%\n",
		.min_operands = 2,
		.max_operands = 2,
		.missing_operand = "name the two captures to compare",
	};
	struct fm_sides s;
	const char *output_dir = NULL; // both sides are named
	int exit_code;
	if (!fm_sides_load(&s, &usage, argc, argv, &view, &output_dir, &exit_code))
		return exit_code;
	const char *cut = fm_sides_cut(&s);
	if (cut) { // it would pass, having used less
		fm_say("%s was cut off before its end, or still runs, so there is nothing to check; record it again",
		       cut);
		fm_sides_deinit(&s);
		return FM_EXIT_FAILED;
	}
	const struct fm_change *time = metric[0] == 'c' ? &s.diff.cpu_s : &s.diff.wall_s;
	const char *what = metric[0] == 'c' ? "CPU time" : "wall time";
	struct fm_buf b = { 0 };
	if (is_beyond(time, max_slowdown, s.diff.is_sampling_only)) {
		describe(&b, what, time, max_slowdown);
		fm_compare_name_worst(&b, &s.diff);
	}
	if (max_growth >= 0 && is_beyond(&s.diff.max_rss_bytes, max_growth, s.diff.is_sampling_only))
		describe(&b, "RAM", &s.diff.max_rss_bytes, max_growth);
	exit_code = b.len ? FM_EXIT_FAILED : FM_EXIT_OK;
	if (b.len)
		fm_say("%s", (const char *)b.data);
	else
		print_passed(what, time, max_slowdown);
	fm_buf_deinit(&b);
	fm_sides_deinit(&s);
	return exit_code;
}
