// fathom diff and fathom check: what changed between two captures, or two sets of repeated ones.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/load_runs.h"
#include "cli/options.h"
#include "render/compare.h"
#include "render/label.h"

struct sides {
	struct fm_runs base, new;
	struct fm_diff diff;
};

static void sides_deinit(struct sides *s)
{
	fm_diff_deinit(&s->diff);
	fm_runs_deinit(&s->base);
	fm_runs_deinit(&s->new);
}

static enum fm_err load_side(struct fm_runs *ret, const char *path, const struct fm_view_options *view,
			     struct fm_diag *diag)
{
	struct fm_captures captures;
	enum fm_err err = fm_captures_find(&captures, path, diag);
	if (!err)
		err = fm_load_runs(ret, &captures, view, diag);
	fm_captures_deinit(&captures);
	return err;
}

// A script whose own Python was not sampled at all is compared by all its functions.
static bool has_users(const struct fm_runs *r)
{
	for (size_t i = 0; i < r->functions.n; i++)
		if (r->functions.items[i].is_users)
			return true;
	return false;
}

// One operand is the name of a script: its two latest runs.
static enum fm_err load(struct sides *s, const struct fm_operands *ops, const char *output_dir,
			const struct fm_view_options *view, struct fm_diag *diag)
{
	*s = (struct sides){ 0 };
	struct fm_captures dated = { 0 };
	const char *base = ops->v[0], *new = ops->n > 1 ? ops->v[1] : NULL;
	enum fm_err err = FM_OK;
	if (!new) {
		err = fm_captures_dated(&dated, output_dir, base, diag);
		if (!err && dated.paths.n < 2)
			err = fm_diag_set(diag, FM_E_NOT_FOUND, "there is only one run of %s so far: %s", base,
					  dated.paths.items[0]);
		if (!err) {
			base = dated.paths.items[dated.paths.n - 2];
			new = dated.paths.items[dated.paths.n - 1];
		}
	}
	if (!err)
		err = load_side(&s->base, base, view, diag);
	if (!err)
		err = load_side(&s->new, new, view, diag);
	if (!err)
		fm_diff_build(&s->diff, &s->base, &s->new,
			      view->detailed || !has_users(&s->base) || !has_users(&s->new));
	fm_captures_deinit(&dated);
	return err;
}

int fm_cmd_diff(int argc, char **argv)
{
	struct fm_view_options view = FM_VIEW_OPTIONS_DEFAULT;
	bool is_json = false;
	const char *output_dir = ".fathom", *color = "auto";
	uint64_t n_top = 0, width = 0;
	const struct fm_option options[] = {
		{ "json", 0, FM_OPT_FLAG, &is_json, NULL,
		  "for machines, schema fathom.diff/1: every function and line" },
		{ "top", 0, FM_OPT_UINT, &n_top, "N", "rows in each table (default 10)" },
		{ "detailed", 0, FM_OPT_FLAG, &view.detailed, NULL, "libraries and native functions, too" },
		{ "output-dir", 0, FM_OPT_TEXT, &output_dir, "DIR", "where NAME is looked for (default: .fathom)" },
		{ "width", 0, FM_OPT_UINT, &width, "COLUMNS", "of the text (default: the terminal's, else 100)" },
		{ "color", 0, FM_OPT_CHOICE, &color, "auto|never|always",
		  "auto colours a terminal unless NO_COLOR is set" },
		{ 0 },
	};
	const struct fm_usage usage = {
		.command = "diff",
		.operands = "BASE NEW | NAME",
		.about = "Print what got slower, faster or bigger from BASE to NEW, with 95% intervals. Each is a "
			 "capture or a "
			 "results folder, which may hold repeated runs; NAME is a script, and its two latest runs are "
			 "compared.",
		.options = options,
		.examples = "  fathom diff before.fathom after.fathom\n"
			    "  fathom diff .fathom/app/20260102_030405 .fathom/app/20260102_040506\n"
			    "  fathom diff app.py\n",
		.min_operands = 1,
		.max_operands = 2,
		.missing_operand = "name the two captures to compare",
	};
	struct fm_operands ops;
	int exit_code;
	if (!fm_options_parse(&usage, argc, argv, &ops, &exit_code))
		return exit_code;
	view.n_top = (unsigned)FM_MIN(n_top, (uint64_t)1000000);
	view.width = (unsigned)FM_MIN(width, (uint64_t)1000);
	view.color = color[1] == 'u' ? -1 : color[0] == 'a';
	struct sides s;
	struct fm_diag diag;
	enum fm_err err = load(&s, &ops, output_dir, &view, &diag);
	if (err)
		fm_say("%s", diag.text);
	else if (is_json)
		fm_compare_diff_json(stdout, &s.diff, &s.base, &s.new);
	else
		fm_compare_diff_text(stdout, &s.diff, &s.base, &s.new, &view);
	sides_deinit(&s);
	return err ? FM_EXIT_FAILED : FM_EXIT_OK;
}

// A slowdown beyond the limit counts when it is one: with several runs its interval must not reach down to no change.
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

// The line that grew most, or the function: one place to begin.
static void name_worst(struct fm_buf *b, const struct fm_diff *d)
{
	const struct fm_diff_row *worst = NULL;
	for (size_t i = 0; i < d->lines.n && !worst; i++)
		if (d->lines.items[i].seconds.delta > 0 && d->lines.items[i].seconds.is_significant)
			worst = &d->lines.items[i];
	for (size_t i = 0; i < d->functions.n && !worst; i++)
		if (d->functions.items[i].seconds.delta > 0 && d->functions.items[i].seconds.is_significant)
			worst = &d->functions.items[i];
	if (!worst)
		return;
	fm_buf_str(b, "; most in ");
	fm_label_clean(b, worst->row->name);
	fm_buf_str(b, " (");
	fm_label_clean(b, worst->row->file);
	fm_buf_printf(b, ":%u), +%.3f s", worst->row->line, worst->seconds.delta);
}

static void print_passed(const char *what, const struct fm_change *c, double max_pct)
{
	double pct = c->base.mean > 0 ? 100 * c->delta / c->base.mean : 0;
	printf("%s changed by %+.1f%%", what, pct);
	if (c->plus_minus > 0 && c->base.mean > 0)
		printf(" +-%.1f", 100 * c->plus_minus / c->base.mean);
	printf(", from %.3f s to %.3f s: ", c->base.mean, c->new.mean);
	if (pct > max_pct)
		printf("above the limit of %g%%, but the runs differ too much to call it a change; more runs "
		       "(--repeat) or a "
		       "quieter machine would tell.\n",
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
		  "how much more memory (RAM at its peak) NEW may use (default: any)" },
		{ "metric", 0, FM_OPT_CHOICE, &metric, "cpu|wall",
		  "what is compared: CPU time (default), which other load on the machine changes less, or time on the "
		  "clock" },
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
	struct fm_operands ops;
	int exit_code;
	if (!fm_options_parse(&usage, argc, argv, &ops, &exit_code))
		return exit_code;
	struct sides s;
	struct fm_diag diag;
	if (load(&s, &ops, NULL, &view, &diag)) {
		fm_say("%s", diag.text);
		sides_deinit(&s);
		return FM_EXIT_FAILED;
	}
	const struct fm_change *time = metric[0] == 'c' ? &s.diff.cpu_s : &s.diff.wall_s;
	const char *what = metric[0] == 'c' ? "CPU time" : "wall time";
	struct fm_buf b = { 0 };
	if (is_beyond(time, max_slowdown, s.diff.is_sampling_only)) {
		describe(&b, what, time, max_slowdown);
		name_worst(&b, &s.diff);
	}
	if (max_growth >= 0 && is_beyond(&s.diff.max_rss_bytes, max_growth, s.diff.is_sampling_only))
		describe(&b, "RAM", &s.diff.max_rss_bytes, max_growth);
	exit_code = b.len ? FM_EXIT_FAILED : FM_EXIT_OK;
	if (b.len)
		fm_say("%s", (const char *)b.data);
	else
		print_passed(what, time, max_slowdown);
	fm_buf_deinit(&b);
	sides_deinit(&s);
	return exit_code;
}
