// What a trace says, as tables for spreadsheets: functions, and lines.
#include <inttypes.h>
#include <stdlib.h>

#include "aggregate/trace.h"
#include "render/formats.h"

static void put_quoted(FILE *out, struct fm_str text)
{
	for (uint32_t i = 0; i < text.len; i++) {
		char c = text.p[i];
		if (c == '"')
			fputc('"', out);
		fputc((unsigned char)c < ' ' ? ' ' : c, out);
	}
}

enum fm_err fm_write_csv(FILE *out, struct fm_analysis *a, struct fm_diag *diag)
{
	static const char *const kinds[] = { "python", "native", "zone", "lost" };
	struct fm_trace_stats *s;
	enum fm_err err = fm_trace_stats_read(a->path, &s, diag);
	if (err)
		return err;
	fputs("name,file,line,kind,calls,recursive_calls,total_ns,own_ns,mean_ns,min_ns,max_ns,p50_ns,p90_ns,p99_ns\n",
	      out);
	uint32_t *order = fm_trace_sorted(s, FM_TRACE_BY_OWN);
	for (size_t i = 0; i < s->functions.n; i++) {
		const struct fm_trace_function *f = &s->functions.items[order[i]];
		fputc('"', out);
		put_quoted(out, f->name);
		fputs("\",\"", out);
		put_quoted(out, f->file);
		fprintf(out,
			"\",%u,%s,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64,
			f->line, kinds[f->kind], f->n_calls, f->n_recursive, f->total_ns, f->own_ns,
			f->n_spans ? f->spans_ns / f->n_spans : 0, f->n_spans ? f->min_ns : 0, f->max_ns);
		fprintf(out, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n", fm_trace_percentile(f, 0.5),
			fm_trace_percentile(f, 0.9), fm_trace_percentile(f, 0.99));
	}
	free(order);
	fm_trace_stats_free(s);
	return FM_OK;
}

enum fm_err fm_write_lines_csv(FILE *out, struct fm_analysis *a, struct fm_diag *diag)
{
	struct fm_trace_stats *s;
	enum fm_err err = fm_trace_stats_read(a->path, &s, diag);
	if (err)
		return err;
	fputs("file,line,function,hits,total_ns,own_ns\n", out);
	for (size_t i = 0; i < s->lines.n; i++) {
		const struct fm_trace_line *line = &s->lines.items[i];
		fputc('"', out);
		put_quoted(out, s->functions.items[line->function].file);
		fprintf(out, "\",%u,\"", line->line);
		put_quoted(out, s->functions.items[line->function].name);
		fprintf(out, "\",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n", line->n_hits, line->total_ns, line->own_ns);
	}
	fm_trace_stats_free(s);
	return FM_OK;
}
