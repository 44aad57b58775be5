// SPDX-License-Identifier: Apache-2.0
#include "render/shared/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "render/shared/facts.h"
#include "render/shared/label.h"
#include "render/shared/style.h"

#define DEFAULT_TOP 10
#define MAX_WIDTH 120

static void heading(const struct fm_style *s, const char *text)
{
	fputc('\n', s->out);
	fm_style_paint(s, FM_PAINT_BOLD);
	fputs(text, s->out);
	fm_style_paint(s, FM_PAINT_NONE);
	fputc('\n', s->out);
	fm_style_repeat(s, "-", FM_MIN(s->width, 96u));
	fputc('\n', s->out);
}

static void init_style(struct fm_style *s, FILE *out, const struct fm_view_options *options)
{
	fm_style_init(s, out, options);
	s->width = FM_MIN(s->width, (unsigned)MAX_WIDTH);
}

static const char *sign(const struct fm_style *s)
{
	return s->has_utf8 ? "±" : "+-";
}

// "name (file:12)", or a line's "file:12 source".
static void put_place(const struct fm_style *s, const struct fm_run_row *row, bool is_line, unsigned cells)
{
	struct fm_buf b = { 0 };
	if (is_line) {
		fm_buf_bytes(&b, row->file.p, row->file.len);
		fm_buf_printf(&b, ":%u  ", row->line);
		struct fm_str text = row->text.len ? row->text : row->name;
		fm_buf_bytes(&b, text.p, text.len);
	} else {
		fm_buf_bytes(&b, row->name.p, row->name.len);
		if (row->file.len) {
			fm_buf_str(&b, " (");
			fm_buf_bytes(&b, row->file.p, row->file.len);
			if (row->line)
				fm_buf_printf(&b, ":%u", row->line);
			fm_buf_u8(&b, ')');
		}
	}
	fm_style_fit(s, (struct fm_str){ (const char *)b.data, (uint32_t)b.len }, cells, false);
	fm_buf_deinit(&b);
	fputc('\n', s->out);
}

void fm_compare_add(struct fm_runs *runs, struct fm_analysis *a)
{
	struct fm_facts f;
	fm_facts_gather(&f, a);
	uint64_t block = a->heap.is_exact ? 0 : fm_facts_meta_u64(a->profile, "alloc_mean_bytes");
	uint64_t used_ns =
		fm_facts_meta_u64(a->profile, "target_user_ns") + fm_facts_meta_u64(a->profile, "target_system_ns");
	struct fm_run_totals totals = { .wall_s = f.wall_s,
					.cpu_s = f.cpu_s,
					.max_rss_bytes = (double)f.max_rss_bytes,
					.command = fm_facts_own_command(a->profile),
					.block_bytes = (double)block,
					.used_s = fm_seconds(used_ns),
					.instructions = (double)fm_facts_meta_u64(a->profile, "instructions") };
	fm_runs_add(runs, a, fm_analysis_summary(a), &totals);
}

struct total {
	const char *name, *unit;
	double scale;
	const struct fm_figure *figure;
	const struct fm_change *change;
};

static int compare_mean(const void *pa, const void *pb)
{
	const struct fm_run_row *a = *(const struct fm_run_row *const *)pa, *b = *(const struct fm_run_row *const *)pb;
	return (b->seconds.sum > a->seconds.sum) - (b->seconds.sum < a->seconds.sum);
}

static void put_mean(const struct fm_style *s, const struct fm_mean *m, double scale)
{
	char interval[32];
	snprintf(interval, sizeof(interval), "%s%.3f", sign(s), scale * m->plus_minus);
	// The sign is one cell of two bytes, or two cells.
	fprintf(s->out, "%10.3f %10.3f %*s", scale * m->mean, scale * m->spread, s->has_utf8 ? 11 : 10, interval);
}

// Functions or lines, largest mean first.
static void put_means(const struct fm_style *s, const char *title, const struct fm_run_row *rows, size_t n_rows,
		      bool is_line, const struct fm_runs *runs, const struct fm_view_options *options, bool is_all)
{
	double least_s = FM_DIFF_MIN_SHARE * runs->cpu_s.sum;
	FM_VEC(const struct fm_run_row *) chosen = { 0 };
	for (size_t i = 0; i < n_rows; i++)
		if ((is_all || rows[i].is_users) && rows[i].seconds.sum >= least_s)
			fm_vec_push(&chosen, &rows[i]);
	if (chosen.n) {
		qsort(chosen.items, chosen.n, sizeof(*chosen.items), compare_mean);
		fprintf(s->out, "%s\n", title);
	}
	size_t n = FM_MIN(chosen.n, (size_t)(options->n_top ? options->n_top : DEFAULT_TOP));
	for (size_t i = 0; i < n; i++) {
		struct fm_mean m = fm_figure_mean(&chosen.items[i]->seconds, runs->n);
		put_mean(s, &m, 1);
		fputs(" s   ", s->out);
		put_place(s, chosen.items[i], is_line, s->width - 37);
	}
	fm_vec_deinit(&chosen);
}

void fm_compare_repeat(FILE *out, const struct fm_runs *runs, const struct fm_view_options *options)
{
	struct fm_style s;
	init_style(&s, out, options);
	char title[64];
	snprintf(title, sizeof(title), "Over %u Runs:", runs->n);
	heading(&s, title);
	fprintf(out, "%10s %10s %10s\n", "mean", "spread", "interval");
	const struct total totals[] = { { "wall time", "s", 1, &runs->wall_s, NULL },
					{ "CPU time", "s", 1, &runs->cpu_s, NULL },
					{ "RAM", "MB", 1e-6, &runs->max_rss_bytes, NULL } };
	for (size_t i = 0; i < FM_ARRAY_LEN(totals); i++) {
		struct fm_mean m = fm_figure_mean(totals[i].figure, runs->n);
		put_mean(&s, &m, totals[i].scale);
		fprintf(out, " %-2s  %s\n", totals[i].unit, totals[i].name);
	}
	bool has_users = false;
	for (size_t i = 0; i < runs->functions.n; i++)
		has_users |= runs->functions.items[i].is_users;
	bool is_all = options->detailed || !has_users;
	put_means(&s, "CPU time of functions, with everything they call:", runs->functions.items, runs->functions.n,
		  false, runs, options, is_all);
	put_means(&s,
		  is_all ? "CPU time of lines:" : "CPU time of lines, with the libraries they call:", runs->lines.items,
		  runs->lines.n, true, runs, options, is_all);
}

static void put_change(const struct fm_style *s, const struct fm_change *c, double scale)
{
	fprintf(s->out, "%10.3f %10.3f  %+10.3f", scale * c->base.mean, scale * c->new.mean, scale * c->delta);
	if (c->plus_minus > 0)
		fprintf(s->out, " %s%-8.3f", sign(s), scale * c->plus_minus);
	else
		fprintf(s->out, " %*s", s->has_utf8 ? 9 : 10, "");
	if (c->base.mean > 0 && c->new.mean < 10 * c->base.mean)
		fprintf(s->out, " %+7.1f%%", 100 * c->delta / c->base.mean);
	else if (c->base.mean > 0)
		fprintf(s->out, " %7.0fx", c->new.mean / c->base.mean);
	else
		fprintf(s->out, " %8s", c->new.mean > 0 ? "new" : "");
}

static void put_mark(const struct fm_style *s, const struct fm_change *c)
{
	if (c->is_significant)
		fm_style_paint(s, c->delta > 0 ? FM_PAINT_RED : FM_PAINT_GREEN);
	fputs(c->is_significant ? " * " : "   ", s->out);
	if (c->is_significant)
		fm_style_paint(s, FM_PAINT_NONE);
}

static void put_rows(const struct fm_style *s, const char *title, const struct fm_diff_row *rows, size_t n,
		     bool is_line, size_t top, double scale)
{
	if (n)
		heading(s, title);
	for (size_t i = 0; i < FM_MIN(n, top); i++) {
		put_change(s, &rows[i].change, scale);
		put_mark(s, &rows[i].change);
		put_place(s, rows[i].row, is_line, s->width > 75 ? s->width - 55 : 20);
	}
}

bool fm_compare_same_command(const struct fm_runs *base, const struct fm_runs *new)
{
	return !base->command.len || !new->command.len || fm_str_eq(base->command, new->command);
}

static void put_commands(const struct fm_style *s, const struct fm_runs *base, const struct fm_runs *new)
{
	struct fm_buf b = { 0 };
	if (fm_compare_same_command(base, new))
		return;
	fm_buf_str(&b, "The command lines differ, and the figures include the effect: BASE is ");
	fm_label_command(&b, base->command);
	fm_buf_str(&b, ", NEW is ");
	fm_label_command(&b, new->command);
	fm_buf_str(&b, ".");
	fm_style_wrap(s, (struct fm_str){ (const char *)b.data, (uint32_t)b.len }, 0, 0);
	fputc('\n', s->out);
	fm_buf_deinit(&b);
}

static void put_closing(const struct fm_style *s, const struct fm_diff *d, const char *more)
{
	struct fm_buf b = { 0 };
	fm_buf_printf(&b,
		      "* marks a change that chance does not explain (95%%, with %zu functions and %zu lines "
		      "compared); %s is the 95%% interval of the change.%s",
		      d->functions.n, d->lines.n, sign(s), more);
	fputc('\n', s->out);
	fm_style_wrap(s, (struct fm_str){ (const char *)b.data, (uint32_t)b.len }, 0, 0);
	fm_buf_deinit(&b);
}

void fm_compare_rows_text(FILE *out, const struct fm_diff *d, const char *more, const struct fm_view_options *options)
{
	struct fm_style s;
	init_style(&s, out, options);
	size_t top = options->n_top ? options->n_top : DEFAULT_TOP;
	put_rows(&s, "Functions that changed most (CPU seconds, with everything they call):", d->functions.items,
		 d->functions.n, false, top, 1);
	put_rows(&s, "Lines that changed most (CPU seconds):", d->lines.items, d->lines.n, true, top, 1);
	put_rows(&s, "Functions whose memory changed most (MB, each at its own peak):", d->memory_functions.items,
		 d->memory_functions.n, false, top, 1e-6);
	put_rows(&s, "Lines whose memory changed most (MB, each at its own peak):", d->memory_lines.items,
		 d->memory_lines.n, true, top, 1e-6);
	put_closing(&s, d, more);
}

void fm_compare_diff_text(FILE *out, const struct fm_diff *d, const struct fm_runs *base, const struct fm_runs *new,
			  const struct fm_view_options *options)
{
	struct fm_style s;
	init_style(&s, out, options);
	const struct total totals[] = { { "wall time, s", "s", 1, NULL, &d->wall_s },
					{ "CPU time, s", "s", 1, NULL, &d->cpu_s },
					{ "RAM, MB", "MB", 1e-6, NULL, &d->max_rss_bytes } };
	put_commands(&s, base, new);
	fprintf(out, "%10s %10s  %10s\n", "BASE", "NEW", "change");
	for (size_t i = 0; i < FM_ARRAY_LEN(totals); i++) {
		if (totals[i].change->base.mean <= 0 && totals[i].change->new.mean <= 0)
			continue; // not known
		put_change(&s, totals[i].change, totals[i].scale);
		if (d->is_sampling_only)
			fputs("   ", out);
		else
			put_mark(&s, totals[i].change);
		fprintf(out, "%s\n", totals[i].name);
	}
	char more[256];
	if (d->is_sampling_only)
		snprintf(more, sizeof(more),
			 " It covers only the sampling, because there %s. To measure how much runs differ, use 'fathom "
			 "run --repeat 5' on both sides.",
			 base->n < 2 && new->n < 2 ? "is one run on each side" : "is only one run on one side");
	else
		snprintf(more, sizeof(more), " BASE has %u runs, NEW %u.", base->n, new->n);
	fm_compare_rows_text(out, d, more, options);
}

const struct fm_diff_row *fm_compare_worst(const struct fm_diff *d)
{
	for (size_t i = 0; i < d->lines.n; i++)
		if (d->lines.items[i].change.delta > 0 && d->lines.items[i].change.is_significant)
			return &d->lines.items[i];
	for (size_t i = 0; i < d->functions.n; i++)
		if (d->functions.items[i].change.delta > 0 && d->functions.items[i].change.is_significant)
			return &d->functions.items[i];
	return NULL;
}

void fm_compare_name_row(struct fm_buf *b, const struct fm_diff_row *row)
{
	fm_utf8_clean(b, row->row->name);
	fm_buf_str(b, " (");
	fm_utf8_clean(b, row->row->file);
	fm_buf_printf(b, ":%u), %+.3f s", row->row->line, row->change.delta);
}

void fm_compare_name_worst(struct fm_buf *b, const struct fm_diff *d)
{
	const struct fm_diff_row *worst = fm_compare_worst(d);
	if (!worst)
		return;
	fm_buf_str(b, "; most in ");
	fm_compare_name_row(b, worst);
}
