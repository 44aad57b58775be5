// SPDX-License-Identifier: Apache-2.0
// The calls of a trace, for people: the table that `python -m fathom` prints at its end and `fathom
// report` shows, and all there is to say of one function.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/trace/trace.h"
#include "base/cleanup.h"
#include "render/text/text.h"
#include "render/shared/formats.h"
#include "render/shared/source_line.h"
#include "render/shared/style.h"

#define DEFAULT_ROWS 15
#define CALLS_COLUMNS 12
#define TIME_COLUMNS 11 // a time and the blank before it
#define LINE_COLUMNS 36
#define BAR_CELLS 40
#define MAX_EDGES 6
#define MAX_OCTAVES 16

// As wide as a time is.
static void put_count(FILE *out, uint64_t n)
{
	static const char *const scales[] = { " ", "k", "M", "G", "T", "P" };
	double v = (double)n;
	size_t i = 0;
	for (; v >= 999.5 && i + 1 < FM_ARRAY_LEN(scales); i++)
		v /= 1e3;
	fprintf(out, "%8.*f %s", v >= 100 || !i ? 0 : v >= 10 ? 1 : 2, v, scales[i]);
}

static void put_time(FILE *out, struct fm_str unit, uint64_t ns)
{
	double s = (double)ns * 1e-9;
	if (unit.len) // no time at all
		put_count(out, ns);
	else if (s >= 100)
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

static void put_name(const struct fm_style *s, const struct fm_traced_function *f, unsigned at, bool has_full_names)
{
	struct fm_buf name = { 0 };
	append_name(&name, f, has_full_names);
	fm_style_fit(s, (struct fm_str){ (const char *)name.data, (uint32_t)name.len },
		     s->width > at + 20 ? s->width - at : 20, false);
	fm_buf_deinit(&name);
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
#define N_KNOWN_OF_SUMS 2

static void times_of(const struct fm_traced_function *f, uint64_t ret[static N_TIMES])
{
	const uint64_t times[] = {
		f->total_ns,
		f->own_ns,
		fm_durations_mean_ns(&f->spans),
		f->spans.min_ns,
		fm_durations_percentile_ns(&f->spans, 0.5),
		fm_durations_percentile_ns(&f->spans, 0.9),
		fm_durations_percentile_ns(&f->spans, 0.99),
		f->spans.max_ns,
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

// What only sums are known of has no length of a single call.
static void put_times_entry(FILE *out, struct fm_str unit, const struct fm_traced_function *f, size_t column,
			    uint64_t ns)
{
	if (column >= N_KNOWN_OF_SUMS && !f->spans.n && f->n_calls)
		fprintf(out, "%*s", TIME_COLUMNS - 1, "-");
	else
		put_time(out, unit, ns);
}

static void put_row(const struct fm_style *s, struct fm_str unit, const struct fm_traced_function *f,
		    bool has_full_names)
{
	unsigned at = CALLS_COLUMNS + 2;
	uint64_t times[N_TIMES];
	times_of(f, times);
	fprintf(s->out, "%*" PRIu64, CALLS_COLUMNS, f->n_calls);
	for (size_t i = 0; i < N_TIMES; i++) {
		if (s->width < time_columns[i].least_width)
			continue;
		fputc(' ', s->out);
		put_times_entry(s->out, unit, f, i, times[i]);
		at += TIME_COLUMNS;
	}
	fputs("  ", s->out);
	put_name(s, f, at, has_full_names);
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

// Without what it is indented by; "" when it is not kept.
static struct fm_str source_line(const struct fm_profile *p, struct fm_str file, uint32_t number)
{
	struct fm_str line = fm_source_line_find(p, file, number);
	while (line.len && (*line.p == ' ' || *line.p == '\t'))
		line = (struct fm_str){ line.p + 1, line.len - 1 };
	return line;
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
		put_time(s->out, stats->unit, line->total_ns);
		fputc(' ', s->out);
		put_time(s->out, stats->unit, line->own_ns);
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

// What was traced, and what came as sums; a capture of several runs may have both.
static void print_extent(const struct fm_style *s, const struct fm_trace_stats *stats)
{
	char count[32];
	uint64_t region_ns = 0, outside_ns = 0;
	size_t n_threads = 0;
	for (size_t i = 0; i < stats->threads.n; i++) {
		region_ns += stats->threads.items[i].region_ns;
		outside_ns += stats->threads.items[i].outside_ns;
		n_threads += stats->threads.items[i].n_events > 0;
	}
	if (n_threads || !stats->n_sums) {
		fprintf(s->out, " on %zu thread%s, ", n_threads, n_threads == 1 ? "" : "s");
		fprintf(s->out, "%.3f s traced", (double)region_ns * 1e-9);
	}
	if (outside_ns > region_ns / 1000)
		fprintf(s->out, ", %.3f s of it outside of traced functions", (double)outside_ns * 1e-9);
	if (stats->n_sums && stats->unit.len)
		fprintf(s->out, ", %s %.*s in them", fm_style_count(stats->summed_ns, count), (int)stats->unit.len,
			stats->unit.p);
	else if (stats->n_sums)
		fprintf(s->out, ", %.3f s in them", (double)stats->summed_ns * 1e-9);
	fputs(stats->n_sums ? "; how long each one took is not known.\n" : ".\n", s->out);
}

static void print_calls(const struct fm_style *s, const struct fm_trace_stats *stats,
			const struct fm_view_options *options)
{
	char count[32], count2[32];
	fprintf(s->out, "%s calls of %s functions", fm_style_count(stats->n_calls, count),
		fm_style_count(stats->functions.n, count2));
	print_extent(s, stats);
	if (stats->n_lost)
		fprintf(s->out, "%s events were lost, so counts and times are too low.\n",
			fm_style_count(stats->n_lost, count));
	if (!stats->functions.n)
		return;
	put_heading(s);
	uint32_t *order = fm_trace_sorted(stats, FM_TRACE_BY_OWN);
	size_t n_rows = FM_MIN(stats->functions.n, options->n_top ? options->n_top : (size_t)DEFAULT_ROWS);
	for (size_t i = 0; i < n_rows; i++)
		put_row(s, stats->unit, &stats->functions.items[order[i]], options->full_filenames);
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

// ---- one function ----

// One row an octave: fine enough to see two humps, short enough to read.
static void print_histogram(const struct fm_style *s, const struct fm_traced_function *f)
{
	uint64_t octaves[64] = { 0 }, most = 1;
	unsigned first = 63, last = 0;
	for (unsigned i = 0; i < FM_DURATION_BUCKETS && f->spans.buckets; i++) {
		unsigned octave = i / 8;
		octaves[octave] += f->spans.buckets[i];
		most = FM_MAX(most, octaves[octave]);
		if (f->spans.buckets[i]) {
			first = FM_MIN(first, octave);
			last = FM_MAX(last, octave);
		}
	}
	bool has_shorter = last >= first + MAX_OCTAVES; // than the first row's: it counts them, too
	for (; last >= first + MAX_OCTAVES; first++) {
		octaves[first + 1] += octaves[first];
		most = FM_MAX(most, octaves[first + 1]);
	}
	for (unsigned i = first; i <= last && i < 64; i++) {
		fputs("  ", s->out);
		put_time(s->out, FM_STR_LIT(""), i && !(has_shorter && i == first) ? 4ull << i : 0);
		fputs("  ", s->out);
		unsigned cells = (unsigned)((double)octaves[i] / (double)most * BAR_CELLS + 0.999);
		for (unsigned k = 0; k < BAR_CELLS; k++)
			fputs(k < cells ? (s->has_utf8 ? "█" : "#") : " ", s->out);
		fprintf(s->out, " %" PRIu64 "\n", octaves[i]);
	}
}

static void print_edges(const struct fm_style *s, const struct fm_trace_stats *stats, uint32_t function,
			bool is_callers, bool has_full_names)
{
	size_t n;
	const struct fm_trace_edge **edges = fm_trace_edges_of(stats, function, is_callers, &n);
	if (n)
		fprintf(s->out, "\n%s\n       calls      total        own\n", is_callers ? "Called by" : "Calls");
	for (size_t i = 0; i < n && i < MAX_EDGES; i++) {
		const struct fm_trace_edge *e = edges[i];
		fprintf(s->out, "%12" PRIu64 " ", e->n_calls);
		put_time(s->out, stats->unit, e->total_ns);
		fputc(' ', s->out);
		put_time(s->out, stats->unit, e->own_ns);
		fputs("  ", s->out);
		put_name(s, &stats->functions.items[is_callers ? e->caller : e->callee], 36, has_full_names);
		fputc('\n', s->out);
	}
	if (n > MAX_EDGES)
		fprintf(s->out, "  ... and %zu more\n", n - MAX_EDGES);
	free(edges);
}

void fm_calls_print_one(const struct fm_style *s, const struct fm_trace_stats *stats, uint32_t idx, bool has_full_names)
{
	const struct fm_traced_function *f = &stats->functions.items[idx];
	uint64_t times[N_TIMES];
	times_of(f, times);
	put_name(s, f, 0, has_full_names);
	fprintf(s->out, "\n  %-10s %10" PRIu64 "%s", "calls", f->n_calls, f->n_recursive ? "" : "\n");
	if (f->n_recursive)
		fprintf(s->out, ", %" PRIu64 " of them inside another\n", f->n_recursive);
	for (size_t i = 0; i < N_TIMES; i++) {
		fprintf(s->out, "  %-10s ", time_columns[i].title);
		put_times_entry(s->out, stats->unit, f, i, times[i]);
		fputc('\n', s->out);
	}
	if (f->spans.n) {
		fputs("\nHow long each took, from\n", s->out);
		print_histogram(s, f);
	}
	print_edges(s, stats, idx, true, has_full_names);
	print_edges(s, stats, idx, false, has_full_names);
}

enum fm_err fm_write_calls(FILE *out, struct fm_analysis *a, struct fm_diag *diag)
{
	(void)diag;
	fm_calls_print(out, a->calls, &a->options);
	return FM_OK;
}
