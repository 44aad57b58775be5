// The table of calls, for people: what `python -m fathom` prints at its end and `fathom report` shows of a trace.
#include <inttypes.h>
#include <stdlib.h>

#include "aggregate/trace.h"
#include "render/calls.h"
#include "render/formats.h"
#include "render/label.h"
#include "render/style.h"

#define DEFAULT_ROWS 15
#define NUMBER_COLUMNS 66 // all columns but the name

static void put_time(FILE *out, uint64_t ns)
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

static void append_name(struct fm_buf *to, const struct fm_trace_function *f, bool has_full_names)
{
	fm_buf_bytes(to, f->name.p, f->name.len);
	if (f->kind == FM_TRACE_PYTHON) {
		const char *file = f->file.p;
		uint32_t len = f->file.len;
		for (uint32_t i = len; !has_full_names && i > 0; i--)
			if (f->file.p[i - 1] == '/') {
				file += i;
				len -= i;
				break;
			}
		fm_buf_printf(to, " (%.*s:%u)", (int)len, file, f->line);
	} else if (f->kind == FM_TRACE_ZONE) {
		fm_buf_str(to, " (zone)");
	}
}

static void put_row(const struct fm_style *s, const struct fm_trace_function *f, bool has_full_names)
{
	fprintf(s->out, "%12" PRIu64 " ", f->n_calls);
	put_time(s->out, f->total_ns);
	fputc(' ', s->out);
	put_time(s->out, f->own_ns);
	fputc(' ', s->out);
	put_time(s->out, f->n_spans ? fm_trace_percentile(f, 0.5) : 0);
	fputc(' ', s->out);
	put_time(s->out, f->max_ns);
	fputs("  ", s->out);
	struct fm_buf name = { 0 };
	append_name(&name, f, has_full_names);
	unsigned width = s->width > NUMBER_COLUMNS + 20 ? s->width - NUMBER_COLUMNS : 20;
	fm_style_fit(s, (struct fm_str){ (const char *)name.data, (uint32_t)name.len }, width, false);
	fm_buf_deinit(&name);
	fputc('\n', s->out);
}

void fm_calls_print(const struct fm_style *s, const struct fm_trace_stats *stats, const struct fm_view_options *options)
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
	fputs("\n       calls      total        own     median    longest  function\n", s->out);
	uint32_t *order = fm_trace_sorted(stats, FM_TRACE_BY_OWN);
	size_t n_rows = FM_MIN(stats->functions.n, options->n_top ? options->n_top : (size_t)DEFAULT_ROWS);
	for (size_t i = 0; i < n_rows; i++)
		put_row(s, &stats->functions.items[order[i]], options->full_filenames);
	if (n_rows < stats->functions.n)
		fprintf(s->out, "  ... and %s more\n", fm_style_count(stats->functions.n - n_rows, count));
	free(order);
}

enum fm_err fm_calls_write(FILE *out, const char *path, const struct fm_view_options *options, struct fm_diag *diag)
{
	struct fm_trace_stats *stats;
	enum fm_err err = fm_trace_stats_read(path, &stats, diag);
	if (err)
		return err;
	struct fm_style style;
	fm_style_init(&style, out, options);
	fm_calls_print(&style, stats, options);
	fm_trace_stats_free(stats);
	return FM_OK;
}

enum fm_err fm_write_calls(FILE *out, struct fm_analysis *a, struct fm_diag *diag)
{
	return fm_calls_write(out, a->path, &a->options, diag);
}
