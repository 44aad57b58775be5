// SPDX-License-Identifier: Apache-2.0
#include "render/shared/comparison.h"

#include <math.h>

#include "base/compiler.h"
#include "render/shared/compare.h"
#include "render/shared/style.h"

const struct fm_compared_kind fm_compared_kinds[FM_N_COMPARED] = {
	[FM_COMPARED_CPU] = { "cpu_s", "CPU time", "s", 1 },
	[FM_COMPARED_WALL] = { "wall_s", "wall time", "s", 1 },
	[FM_COMPARED_RAM] = { "max_rss_bytes", "RAM", "MB", 1e-6 },
	[FM_COMPARED_INSTRUCTIONS] = { "instructions", "instructions", "million", 1e-6 },
};

double fm_compared_value(const struct fm_run_totals *run, enum fm_compared which)
{
	switch (which) {
	case FM_COMPARED_CPU:
		return run->used_s;
	case FM_COMPARED_WALL:
		return run->wall_s;
	case FM_COMPARED_RAM:
		return run->max_rss_bytes;
	case FM_COMPARED_INSTRUCTIONS:
		return run->instructions;
	case FM_N_COMPARED:
		break;
	}
	return 0;
}

void fm_comparison_judge(struct fm_comparison *c)
{
	unsigned n = c->base->n;
	for (unsigned which = 0; which < FM_N_COMPARED; which++) {
		struct fm_compared_figure *f = &c->figures[which];
		double base[FM_PAIRED_MOST], head[FM_PAIRED_MOST];
		f->is_known = false;
		if (n != c->head->n || n > FM_PAIRED_MOST)
			continue;
		for (unsigned i = 0; i < n; i++) {
			base[i] = fm_compared_value(&c->base->each.items[i], which);
			head[i] = fm_compared_value(&c->head->each.items[i], which);
		}
		f->is_known = fm_paired_compare(base, head, n, &f->paired);
		f->is_beyond = f->is_known && f->limit >= 0 && f->paired.change > f->limit && f->paired.low > 0;
	}
}

bool fm_comparison_is_beyond(const struct fm_comparison *c)
{
	for (unsigned which = 0; which < FM_N_COMPARED; which++)
		if (c->figures[which].is_beyond)
			return true;
	return false;
}

void fm_comparison_percent(struct fm_buf *b, double share)
{
	double pct = 100 * share;
	fm_buf_printf(b, "%+.1f%%", fabs(pct) < 0.05 ? 0 : pct); // never -0.0
}

static void describe(struct fm_buf *b, const struct fm_comparison *c, unsigned which)
{
	const struct fm_compared_figure *f = &c->figures[which];
	fm_buf_printf(b, "%s%s changed by ", b->len ? "; " : "", fm_compared_kinds[which].name);
	fm_comparison_percent(b, f->paired.change);
	fm_buf_str(b, " (95% interval ");
	fm_comparison_percent(b, f->paired.low);
	fm_buf_str(b, " to ");
	fm_comparison_percent(b, f->paired.high);
	if (f->is_beyond || f->paired.change <= f->limit)
		fm_buf_printf(b, "), %s the limit of %g%%", f->is_beyond ? "above" : "within", 100 * f->limit);
	else
		fm_buf_printf(b, "), above the limit of %g%%, but chance may explain it; run more pairs (--runs)",
			      100 * f->limit);
}

// The total is surer than its parts: where chance explains every one of these, the one that grew most
// is still where to look first.
static void name_place(struct fm_buf *b, const struct fm_diff *d)
{
	if (fm_compare_worst(d)) {
		fm_compare_name_worst(b, d);
		return;
	}
	for (size_t i = 0; i < d->lines.n; i++)
		if (d->lines.items[i].change.delta > 0) {
			fm_buf_str(b, "; perhaps in ");
			fm_compare_name_row(b, &d->lines.items[i]);
			return;
		}
}

void fm_comparison_verdict(struct fm_buf *b, const struct fm_comparison *c)
{
	bool is_beyond = fm_comparison_is_beyond(c);
	for (unsigned which = 0; which < FM_N_COMPARED; which++) {
		const struct fm_compared_figure *f = &c->figures[which];
		if (f->is_known && f->limit >= 0 && f->is_beyond == is_beyond)
			describe(b, c, which);
	}
	if (is_beyond && (c->figures[FM_COMPARED_CPU].paired.low > 0 || c->figures[FM_COMPARED_WALL].paired.low > 0))
		name_place(b, c->diff);
}

struct fm_str fm_comparison_path(const struct fm_comparison *c, const struct fm_run_row *row)
{
	size_t len = strlen(c->root);
	struct fm_str path = row->path;
	if (path.len && path.p[0] != '/')
		return path; // as the program was told its own file
	if (!len || path.len <= len + 1 || memcmp(path.p, c->root, len) != 0 || path.p[len] != '/')
		return FM_STR_LIT("");
	return (struct fm_str){ path.p + len + 1, (uint32_t)(path.len - len - 1) };
}

static void put_figure(const struct fm_style *s, const struct fm_compared_kind *kind,
		       const struct fm_compared_figure *f)
{
	struct fm_buf b = { 0 };
	fm_comparison_percent(&b, f->paired.change);
	fprintf(s->out, "%12.3f %12.3f %9s  ", kind->scale * f->paired.base, kind->scale * f->paired.head,
		(const char *)b.data);
	b.len = 0;
	fm_comparison_percent(&b, f->paired.low);
	fm_buf_str(&b, " to ");
	fm_comparison_percent(&b, f->paired.high);
	fprintf(s->out, "%-20s", (const char *)b.data);
	fm_buf_deinit(&b);
	if (f->paired.is_significant)
		fm_style_paint(s, f->paired.change > 0 ? FM_PAINT_RED : FM_PAINT_GREEN);
	fputs(f->paired.is_significant ? " * " : "   ", s->out);
	if (f->paired.is_significant)
		fm_style_paint(s, FM_PAINT_NONE);
	fprintf(s->out, "%s, %s\n", kind->name, kind->unit);
}

void fm_comparison_text(FILE *out, const struct fm_comparison *c, const struct fm_view_options *options)
{
	struct fm_style s;
	fm_style_init(&s, out, options);
	fprintf(out, "base: ");
	fm_style_fit(&s, fm_str_of(c->base_name), FM_MAX(s.width, 20u) - 6, false);
	fprintf(out, "\nhead: ");
	fm_style_fit(&s, fm_str_of(c->head_name), FM_MAX(s.width, 20u) - 6, false);
	fprintf(out, "\n\n%12s %12s %9s  %s\n", "base", "head", "change", "95% interval");
	for (unsigned which = 0; which < FM_N_COMPARED; which++)
		if (c->figures[which].is_known)
			put_figure(&s, &fm_compared_kinds[which], &c->figures[which]);
	if (*c->no_instructions)
		fprintf(out, "Instructions were not counted: %s.\n", c->no_instructions);
	char more[200];
	snprintf(more, sizeof(more),
		 " Fathom ran %u pairs, in random order within each, after one warm-up pair. The figures at the top "
		 "are medians; their changes are those of the pairs.",
		 c->base->n);
	fm_compare_rows_text(out, c->diff, more, options);
}
