// SPDX-License-Identifier: Apache-2.0
// What a trace says, as tables for spreadsheets: functions, and lines.
#include <inttypes.h>
#include <stdlib.h>

#include "aggregate/trace/trace.h"
#include "render/shared/csv.h"
#include "render/shared/formats.h"

// Empty where only sums are known.
static void put_durations(FILE *out, const struct fm_traced_function *f)
{
	if (!f->spans.n && f->n_calls) {
		fputs(",,,,,,\n", out);
		return;
	}
	fprintf(out, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64, fm_durations_mean_ns(&f->spans), f->spans.min_ns,
		f->spans.max_ns);
	fprintf(out, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n", fm_durations_percentile_ns(&f->spans, 0.5),
		fm_durations_percentile_ns(&f->spans, 0.9), fm_durations_percentile_ns(&f->spans, 0.99));
}

enum fm_err fm_write_csv(FILE *out, struct fm_analysis *a, struct fm_diag *diag)
{
	(void)diag;
	const struct fm_trace_stats *s = a->calls;
	static const char *const times[] = { "total", "own", "mean", "min", "max", "p50", "p90", "p99" };
	fputs("name,file,line,kind,calls,recursive_calls", out);
	for (size_t i = 0; i < FM_ARRAY_LEN(times); i++)
		fprintf(out, ",%s_%.*s", times[i], s->unit.len ? (int)s->unit.len : 2, s->unit.len ? s->unit.p : "ns");
	fputc('\n', out);
	uint32_t *order = fm_trace_sorted(s, FM_TRACE_BY_OWN);
	for (size_t i = 0; i < s->functions.n; i++) {
		const struct fm_traced_function *f = &s->functions.items[order[i]];
		fm_csv_put(out, f->name);
		fputc(',', out);
		fm_csv_put(out, f->file);
		fprintf(out, ",%u,%s,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64, f->line,
			fm_trace_kind_names[f->kind], f->n_calls, f->n_recursive, f->total_ns, f->own_ns);
		put_durations(out, f);
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
		fm_csv_put(out, s->functions.items[line->function].file);
		fprintf(out, ",%u,", line->line);
		fm_csv_put(out, s->functions.items[line->function].name);
		fprintf(out, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n", line->n_hits, line->total_ns, line->own_ns);
	}
	return FM_OK;
}
