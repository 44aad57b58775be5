// SPDX-License-Identifier: Apache-2.0
// The table of calls, for people: what `python -m fathom` prints at its end and `fathom report`
// shows of a trace.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/trace/trace.h"
#include "base/cleanup.h"
#include "render/text/calls.h"
#include "render/shared/formats.h"
#include "render/shared/label.h"
#include "render/shared/style.h"

#define DEFAULT_ROWS 15
#define CALLS_COLUMNS 12
#define TIME_COLUMNS 11 // a time and the blank before it
#define LINE_COLUMNS 36

void fm_calls_put_time(FILE *out, uint64_t ns)
{
	double s = (double)ns * 1e-9;
	if (s >= 100)
		fprintf(out, "%8.1f s", s);
	else if (s >= 1)
		fprintf(out, "%8.3f s", s);
	else if (s >= 1e-3)
		fprintf(out, "%7.2f ms", s * 1e3);
	else
		fprintf(out, "%7.2f us", s * 1e6);
}

static void append_file(struct fm_buf *to, struct fm_str file, uint32_t line, bool has_full_names)
{
	uint32_t from = 0;
	for (uint32_t i = file.len; !has_full_names && i > 0 && !from; i--)
		from = file.p[i - 1] == '/' ? i : 0;
	fm_buf_bytes(to, file.p + from, file.len - from);
	fm_buf_printf(to, ":%u", line);
}

static void append_name(struct fm_buf *to, const struct fm_traced_function *f, bool has_full_names)
{
	fm_buf_bytes(to, f->name.p, f->name.len);
	if (f->kind == FM_TRACE_PYTHON) {
		fm_buf_str(to, " (");
		append_file(to, f->file, f->line, has_full_names);
		fm_buf_u8(to, ')');
	} else if (f->kind == FM_TRACE_ZONE) {
		fm_buf_str(to, " (zone");
		if (f->file.len) {
			fm_buf_str(to, ", ");
			append_file(to, f->file, f->line, has_full_names);
		}
		fm_buf_u8(to, ')');
	}
}

void fm_calls_put_name(const struct fm_style *s, const struct fm_traced_function *f, unsigned at, bool has_full_names)
{
	struct fm_buf name = { 0 };
	append_name(&name, f, has_full_names);
	fm_style_fit(s, (struct fm_str){ (const char *)name.data, (uint32_t)name.len },
		     s->width > at + 20 ? s->width - at : 20, false);
	fm_buf_deinit(&name);
}

static uint64_t mean_ns(const struct fm_traced_function *f)
{
	return f->n_spans ? f->spans_ns / f->n_spans : 0;
}

// The times of a row, and from which width of the page on there is room for them beside a name.
static const struct time_column {
	const char *title;
	unsigned least_width;
} time_columns[] = {
	{ "total", 0 },  { "own", 0 },    { "mean", 120 }, { "shortest", 142 },
	{ "median", 0 }, { "90 %", 142 }, { "99 %", 120 }, { "longest", 0 },
};
#define N_TIMES FM_ARRAY_LEN(time_columns)

static void times_of(const struct fm_traced_function *f, uint64_t ret[static N_TIMES])
{
	const uint64_t times[] = {
		f->total_ns,
		f->own_ns,
		mean_ns(f),
		f->n_spans ? f->min_ns : 0,
		fm_trace_percentile(f, 0.5),
		fm_trace_percentile(f, 0.9),
		fm_trace_percentile(f, 0.99),
		f->max_ns,
	};
	memcpy(ret, times, sizeof(times));
}

// Every column is a number of cells wide; what is left of the line is the name's.
static void put_heading(const struct fm_style *s)
{
	fprintf(s->out, "\n%*s", CALLS_COLUMNS, "calls");
	for (size_t i = 0; i < N_TIMES; i++)
		if (s->width >= time_columns[i].least_width)
			fprintf(s->out, "%*s", TIME_COLUMNS, time_columns[i].title);
	fputs("  function\n", s->out);
}

static void put_row(const struct fm_style *s, const struct fm_traced_function *f, bool has_full_names)
{
	unsigned at = CALLS_COLUMNS + 2;
	uint64_t times[N_TIMES];
	times_of(f, times);
	fprintf(s->out, "%*" PRIu64, CALLS_COLUMNS, f->n_calls);
	for (size_t i = 0; i < N_TIMES; i++) {
		if (s->width < time_columns[i].least_width)
			continue;
		fputc(' ', s->out);
		fm_calls_put_time(s->out, times[i]);
		at += TIME_COLUMNS;
	}
	fputs("  ", s->out);
	fm_calls_put_name(s, f, at, has_full_names);
	fputc('\n', s->out);
}

struct line_key {
	uint64_t own_ns;
	uint32_t idx;
};

static int compare_lines(const void *a, const void *b)
{
	const struct line_key *x = a, *y = b;
	if (x->own_ns != y->own_ns)
		return x->own_ns < y->own_ns ? 1 : -1;
	return x->idx < y->idx ? -1 : 1;
}

// The text of a line of a source file, without what it is indented by; "" when it is not kept.
static struct fm_str source_line(const struct fm_profile *p, struct fm_str file, uint32_t number)
{
	for (size_t i = 0; i < p->sources.n; i++) {
		if (!fm_str_eq(p->sources.items[i].filename, file))
			continue;
		const char *at = p->sources.items[i].text.p, *end = at + p->sources.items[i].text.len;
		for (; number > 1 && at; number--) {
			at = memchr(at, '\n', (size_t)(end - at));
			at = at ? at + 1 : NULL;
		}
		if (!at)
			break;
		while (at < end && (*at == ' ' || *at == '\t'))
			at++;
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		return (struct fm_str){ at, (uint32_t)((stop ? stop : end) - at) };
	}
	return (struct fm_str){ "", 0 };
}

static void print_lines(const struct fm_style *s, const struct fm_trace_stats *stats,
			const struct fm_view_options *options)
{
	_cleanup_free_ struct line_key *keys = fm_realloc_array(NULL, stats->lines.n, sizeof(*keys));
	for (uint32_t i = 0; i < stats->lines.n; i++)
		keys[i] = (struct line_key){ stats->lines.items[i].own_ns, i };
	qsort(keys, stats->lines.n, sizeof(*keys), compare_lines);
	fputs("\n        hits      total        own  line\n", s->out);
	size_t n_rows = FM_MIN(stats->lines.n, options->n_top ? options->n_top : (size_t)DEFAULT_ROWS);
	for (size_t i = 0; i < n_rows; i++) {
		const struct fm_trace_line *line = &stats->lines.items[keys[i].idx];
		const struct fm_traced_function *f = &stats->functions.items[line->function];
		fprintf(s->out, "%12" PRIu64 " ", line->n_hits);
		fm_calls_put_time(s->out, line->total_ns);
		fputc(' ', s->out);
		fm_calls_put_time(s->out, line->own_ns);
		fputs("  ", s->out);
		struct fm_buf text = { 0 };
		struct fm_str source = source_line(stats->profile, f->file, line->line);
		append_file(&text, f->file, line->line, options->full_filenames);
		fm_buf_str(&text, "  ");
		fm_buf_bytes(&text, source.p, source.len);
		fm_style_fit(s, (struct fm_str){ (const char *)text.data, (uint32_t)text.len },
			     s->width > LINE_COLUMNS + 20 ? s->width - LINE_COLUMNS : 20, false);
		fm_buf_deinit(&text);
		fputc('\n', s->out);
	}
}

static void print_calls(const struct fm_style *s, const struct fm_trace_stats *stats,
			const struct fm_view_options *options)
{
	char count[32], count2[32];
	uint64_t region_ns = 0, outside_ns = 0;
	size_t n_threads = 0;
	for (size_t i = 0; i < stats->threads.n; i++) {
		region_ns += stats->threads.items[i].region_ns;
		outside_ns += stats->threads.items[i].outside_ns;
		n_threads += stats->threads.items[i].n_events > 0;
	}
	fprintf(s->out, "%s calls of %s functions on %zu thread%s, ", fm_style_count(stats->n_calls, count),
		fm_style_count(stats->functions.n, count2), n_threads, n_threads == 1 ? "" : "s");
	fprintf(s->out, "%.3f s traced", (double)region_ns * 1e-9);
	if (outside_ns > region_ns / 1000)
		fprintf(s->out, ", %.3f s of it outside of traced functions", (double)outside_ns * 1e-9);
	fputs(".\n", s->out);
	if (stats->n_lost)
		fprintf(s->out, "%s events were lost; counts and times are too low by these.\n",
			fm_style_count(stats->n_lost, count));
	if (!stats->functions.n)
		return;
	put_heading(s);
	uint32_t *order = fm_trace_sorted(stats, FM_TRACE_BY_OWN);
	size_t n_rows = FM_MIN(stats->functions.n, options->n_top ? options->n_top : (size_t)DEFAULT_ROWS);
	for (size_t i = 0; i < n_rows; i++)
		put_row(s, &stats->functions.items[order[i]], options->full_filenames);
	if (n_rows < stats->functions.n)
		fprintf(s->out, "  ... and %s more\n", fm_style_count(stats->functions.n - n_rows, count));
	free(order);
	if (stats->lines.n)
		print_lines(s, stats, options);
}

void fm_calls_print(FILE *out, const struct fm_trace_stats *stats, const struct fm_view_options *options)
{
	struct fm_style style;
	fm_style_init(&style, out, options);
	print_calls(&style, stats, options);
}

enum fm_err fm_write_calls(FILE *out, struct fm_analysis *a, struct fm_diag *diag)
{
	(void)diag;
	fm_calls_print(out, a->calls, &a->options);
	return FM_OK;
}
