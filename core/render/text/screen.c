// SPDX-License-Identifier: Apache-2.0
// The first screen: what 'fathom run' prints. At most 40 lines of 80 columns for an ordinary
// script, so that the whole of it is read: what to know, the lines and functions to look at, how
// sure that is, and where the rest is.
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/tally/weight.h"
#include "render/shared/label.h"
#include "render/shared/source_line.h"
#include "render/text/text.h"

#define TOP_LINES 5
#define TOP_FUNCTIONS 6
#define TOP_MEMORY 3
#define MIN_LINE_PERCENT 1.0
#define MAX_PLACE_CELLS 30
// What was not seen is told here when it moves a figure by more than this.
#define MUCH_UNSEEN 0.05
#define MIN_UNSAMPLED_S 0.02 // less is the start of the interpreter

static void put_line(const struct fm_text *t, const struct fm_line_row *row, struct fm_str place, unsigned place_cells)
{
	const struct fm_style *s = &t->style;
	char interval[16];
	snprintf(interval, sizeof(interval), "%.1f", fm_text_plus_minus(t, &row->weight));
	fprintf(s->out, " %5.1f%% ", fm_text_percent(t, &row->weight));
	fm_style_paint(s, FM_PAINT_DIM);
	fprintf(s->out, "%s%-4s ", fm_text_sign(t), interval);
	fm_style_paint(s, FM_PAINT_NONE);
	fm_style_fit_end(s, place, place_cells);
	fm_style_repeat(s, " ", place_cells - FM_MIN(place_cells, fm_style_cells(place)));
	struct fm_str file = fm_analysis_function(t->a, row->function_id)->file;
	struct fm_str text = fm_source_line_text(t->a->profile, file, row->line);
	fputs("  ", s->out);
	unsigned used = 1 + 6 + 1 + (s->has_utf8 ? 5 : 6) + 1 + place_cells + 2;
	// The line that happens to set the collector off says nothing of why.
	static const char by_gc[] = "  (mostly garbage collection)";
	bool is_gc = row->weight.ns[FM_CLASS_GC] > fm_weight_cpu_ns(&row->weight) / 2;
	if (text.len) {
		used += is_gc ? (unsigned)sizeof(by_gc) - 1 : 0;
		fm_style_fit(s, text, s->width > used + 10 ? s->width - used : 10, false);
		fputs(is_gc ? by_gc : "", s->out);
	} else {
		static const char made[] = " (code made of the template)";
		unsigned more = fm_source_is_template(file) ? (unsigned)sizeof(made) - 1 : 0;
		fputs("in ", s->out);
		fm_style_fit(s, fm_analysis_function(t->a, row->function_id)->name,
			     s->width > used + more + 13 ? s->width - used - more - 3 : 10, false);
		fputs(more ? made : "", s->out);
	}
	fputc('\n', s->out);
}

static void print_lines(const struct fm_text *t)
{
	const struct fm_line_row *rows[64];
	struct fm_buf places[64] = { 0 };
	size_t n = 0, n_most = t->a->options.n_top ? FM_MIN(t->a->options.n_top, FM_ARRAY_LEN(rows)) : TOP_LINES;
	unsigned cells = 8;
	for (size_t i = 0; i < t->summary->lines.n && n < n_most; i++) {
		const struct fm_line_row *row = &t->summary->lines.items[i];
		double percent = fm_text_percent(t, &row->weight);
		if (!fm_text_shows(t, row->function_id) || !row->line)
			continue;
		if (percent < MIN_LINE_PERCENT || (t->is_short && percent < 2 * fm_text_plus_minus(t, &row->weight)))
			break; // most time first
		if (percent < fm_text_plus_minus(t, &row->weight))
			continue; // it may be nothing
		struct fm_str file = fm_label_last_part(fm_analysis_function(t->a, row->function_id)->file);
		fm_buf_bytes(&places[n], file.p, file.len);
		fm_buf_printf(&places[n], ":%u", row->line);
		struct fm_str place = { (const char *)places[n].data, (uint32_t)places[n].len };
		cells = FM_MAX(cells, fm_style_cells(place));
		rows[n++] = row;
	}
	if (!n)
		return;
	fputc('\n', t->style.out);
	fm_style_paint(&t->style, FM_PAINT_BOLD);
	fputs("Top Lines:", t->style.out);
	fm_style_paint(&t->style, FM_PAINT_NONE);
	fm_style_paint(&t->style, FM_PAINT_DIM);
	fprintf(t->style.out, " (%% of %.3f s of CPU time, with what they call in libraries)", t->cpu_s);
	fm_style_paint(&t->style, FM_PAINT_NONE);
	fputc('\n', t->style.out);
	for (size_t i = 0; i < n; i++) {
		struct fm_str place = { (const char *)places[i].data, (uint32_t)places[i].len };
		put_line(t, rows[i], place, FM_MIN(cells, (unsigned)MAX_PLACE_CELLS));
		fm_buf_deinit(&places[i]);
	}
}

static void wrap(const struct fm_text *t, struct fm_buf *b)
{
	fm_style_wrap(&t->style, (struct fm_str){ (const char *)b->data, (uint32_t)b->len }, 0, 2);
	fm_buf_deinit(b);
}

// The widest interval that a share can have: that of one half.
static double widest_s(const struct fm_summary *s)
{
	double whole_s = fm_seconds(fm_weight_cpu_ns(&s->total));
	return fm_plus_minus_s(whole_s / 2, s->total.cpu_sq / 2, 0.5, whole_s, s->total.cpu_sq, s->heavy_sq,
			       s->misplaced_s);
}

static void print_method(const struct fm_text *t)
{
	const struct fm_facts *f = &t->facts;
	char count[32];
	struct fm_buf b = { 0 };
	fm_buf_printf(&b, "%s samples", fm_style_count(f->n_samples - f->n_waits, count));
	if (f->python.len)
		fm_buf_printf(&b, " of Python %.*s", (int)f->python.len, f->python.p);
	if (t->cpu_s > 0)
		fm_buf_printf(&b, ", accurate to %s%.1f points or better", fm_text_sign(t),
			      FM_MIN(100.0, 100 * widest_s(t->summary) / t->cpu_s));
	bool is_traced = fm_facts_meta_u64(t->a->profile, "trace_events") > 0;
	if (fm_text_is_attached(t) && f->overhead_s > 0 && f->wall_s > 0) {
		fm_buf_printf(&b, "; threads were stopped for %.1f%% of the wall time",
			      100 * f->overhead_s / f->wall_s);
	} else if (f->overhead_s > 0 && f->cpu_s > 0) {
		fm_buf_printf(&b, "; %s took %.1f%% of the CPU time",
			      t->heap->is_exact || is_traced ? "sampling" : "Fathom", 100 * f->overhead_s / f->cpu_s);
		if (t->heap->is_exact || is_traced) // nobody measures that
			fm_buf_printf(&b, ", without the cost of %s%s%s",
				      t->heap->is_exact ? "counting every allocation" : "",
				      t->heap->is_exact && is_traced ? " and " : "",
				      is_traced ? "recording every call" : "");
	}
	fm_buf_u8(&b, '.');
	wrap(t, &b);
}

struct gap {
	double share;
	char text[256];
	unsigned n;
};

static void see_gap(struct gap *g, double share, const char *fmt, ...) FM_PRINTF(3, 4);
static void see_gap(struct gap *g, double share, const char *fmt, ...)
{
	if (share <= MUCH_UNSEEN || g->n++ == UINT32_MAX || share <= g->share)
		return;
	va_list args;
	va_start(args, fmt);
	vsnprintf(g->text, sizeof(g->text), fmt, args);
	va_end(args);
	g->share = share;
}

// Notes of the capture itself say how much they are about as a percentage, or not at all.
static double told_share(struct fm_str what)
{
	for (uint32_t i = 1; i < what.len; i++) {
		if (what.p[i] != '%')
			continue;
		uint32_t from = i;
		while (from && what.p[from - 1] >= '0' && what.p[from - 1] <= '9')
			from--;
		return from < i ? strtod(what.p + from, NULL) / 100 : 0;
	}
	return 0;
}

void fm_text_much_not_seen(const struct fm_text *t)
{
	const struct fm_facts *f = &t->facts;
	const struct fm_profile *p = t->a->profile;
	struct gap g = { 0 };
	struct fm_facts_unseen unseen;
	if (p->damage[0])
		see_gap(&g, 1, "part of the profile (%s)", p->damage);
	if (fm_facts_unseen(&unseen, t->a, f))
		see_gap(&g, unseen.s / unseen.of_s, "%.2f of %.2f s of CPU time, %s", unseen.s, unseen.of_s,
			unseen.where);
	else if (f->cpu_s - f->sampled_s > MIN_UNSAMPLED_S)
		see_gap(&g, (f->cpu_s - f->sampled_s) / f->cpu_s,
			"%.2f of %.2f s of CPU time, before the first sample or while Fathom had no CPU",
			f->cpu_s - f->sampled_s, f->cpu_s);
	see_gap(&g, (double)f->n_dropped / (double)FM_MAX(f->n_samples + f->n_dropped, (uint64_t)1),
		"%" PRIu64 " samples, which were dropped: a lower --rate keeps them all", f->n_dropped);
	double failed = (double)t->summary->n_failed_unwinds / (double)FM_MAX(f->n_samples, (uint64_t)1);
	see_gap(&g, failed, "the outer part of %.0f%% of the stacks", 100 * failed);
	for (size_t i = 0; i < p->coverages.n; i++) {
		struct fm_str what = p->coverages.items[i].what;
		see_gap(&g, told_share(what), "%.*s", (int)FM_MIN(what.len, 200u), what.p);
	}
	if (!g.n)
		return;
	struct fm_buf b = { 0 };
	fm_buf_printf(&b, "Not seen: %s%s.", g.text, g.n > 1 ? ", and more (fathom report lists all)" : "");
	wrap(t, &b);
}

void fm_text_screen(struct fm_text *t)
{
	static const struct fm_text_next nexts[] = {
		{ "fathom report --tree", "call tree of your code", true, false },
		{ "fathom report", "every table and line", true, false },
		{ "fathom view", "in the browser", true, true },
	};
	fm_text_ending(t);
	fm_text_logs(t);
	fm_text_too_little(t);
	fm_text_verdict(t);
	if (t->facts.n_samples) {
		print_lines(t);
		fm_text_top_functions(t, TOP_FUNCTIONS);
	} else {
		fm_text_no_samples(t);
	}
	bool has_heading = fm_text_top_memory(t, TOP_MEMORY);
	fm_text_memory_on_screen(t, has_heading);
	fputc('\n', t->style.out);
	if (fm_facts_meta_u64(t->a->profile, "trace_events"))
		fputs("Every call was traced: 'fathom report' lists them by function.\n", t->style.out);
	print_method(t);
	fm_text_much_not_seen(t);
	fputc('\n', t->style.out);
	fm_text_nexts(t, nexts, FM_ARRAY_LEN(nexts));
}
