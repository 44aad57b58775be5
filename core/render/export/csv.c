// SPDX-License-Identifier: Apache-2.0
// What a trace says, as tables for spreadsheets: functions, and lines.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/trace/trace.h"
#include "base/utf8.h"
#include "render/shared/formats.h"

// What begins like a formula is one to spreadsheets, quotes or not, unless an apostrophe stands
// before it.
static void put_quoted(FILE *out, struct fm_str text)
{
	struct fm_buf clean = { 0 };
	if (text.len && strchr("=+-@", text.p[0]))
		fm_buf_u8(&clean, '\'');
	fm_utf8_clean(&clean, text);
	for (size_t i = 0; i < clean.len; i++) {
		if (clean.data[i] == '"')
			fputc('"', out);
		fputc(clean.data[i], out);
	}
	fm_buf_deinit(&clean);
}

enum fm_err fm_write_csv(FILE *out, struct fm_analysis *a, struct fm_diag *diag)
{
	(void)diag;
	const struct fm_trace_stats *s = a->calls;
	fputs("name,file,line,kind,calls,recursive_calls,total_ns,own_ns,mean_ns,min_ns,max_ns,p50_ns,p90_ns,p99_ns\n",
	      out);
	uint32_t *order = fm_trace_sorted(s, FM_TRACE_BY_OWN);
	for (size_t i = 0; i < s->functions.n; i++) {
		const struct fm_traced_function *f = &s->functions.items[order[i]];
		fputc('"', out);
		put_quoted(out, f->name);
		fputs("\",\"", out);
		put_quoted(out, f->file);
		fprintf(out,
			"\",%u,%s,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64,
			f->line, fm_trace_kind_names[f->kind], f->n_calls, f->n_recursive, f->total_ns, f->own_ns,
			fm_durations_mean_ns(&f->spans), f->spans.min_ns, f->spans.max_ns);
		fprintf(out, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n", fm_durations_percentile_ns(&f->spans, 0.5),
			fm_durations_percentile_ns(&f->spans, 0.9), fm_durations_percentile_ns(&f->spans, 0.99));
	}
	free(order);
	return FM_OK;
}

enum fm_err fm_write_lines_csv(FILE *out, struct fm_analysis *a, struct fm_diag *diag)
{
	(void)diag;
	const struct fm_trace_stats *s = a->calls;
	fputs("file,line,function,hits,total_ns,own_ns\n", out);
	for (size_t i = 0; i < s->lines.n; i++) {
		const struct fm_trace_line *line = &s->lines.items[i];
		fputc('"', out);
		put_quoted(out, s->functions.items[line->function].file);
		fprintf(out, "\",%u,\"", line->line);
		put_quoted(out, s->functions.items[line->function].name);
		fprintf(out, "\",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n", line->n_hits, line->total_ns, line->own_ns);
	}
	return FM_OK;
}
