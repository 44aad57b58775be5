// The call graph of a trace as a table (csv) and as a picture's description (Graphviz dot).
#include <inttypes.h>
#include <stdlib.h>

#include "aggregate/trace.h"
#include "render/formats.h"

// Functions and calls below these shares of the traced time are left out of the picture.
#define MIN_NODE_SHARE 0.005
#define MIN_EDGE_SHARE 0.001

static void put_quoted(FILE *out, struct fm_str text, char escape)
{
	for (uint32_t i = 0; i < text.len; i++) {
		char c = text.p[i];
		if (c == '"' || (escape == '\\' && c == '\\'))
			fputc(escape, out);
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
		put_quoted(out, f->name, '"');
		fputs("\",\"", out);
		put_quoted(out, f->file, '"');
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
		put_quoted(out, s->functions.items[line->function].file, '"');
		fprintf(out, "\",%u,\"", line->line);
		put_quoted(out, s->functions.items[line->function].name, '"');
		fprintf(out, "\",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n", line->n_hits, line->total_ns, line->own_ns);
	}
	fm_trace_stats_free(s);
	return FM_OK;
}

// From blue (cold) to red (hot), as gprof2dot paints.
static void put_color(FILE *out, double share)
{
	double hue = 0.66 * (1 - (share > 1 ? 1 : share));
	fprintf(out, "\"%.3f 0.75 %.3f\"", hue, 0.35 + 0.45 * (share > 1 ? 1 : share));
}

enum fm_err fm_write_dot(FILE *out, struct fm_analysis *a, struct fm_diag *diag)
{
	struct fm_trace_stats *s;
	enum fm_err err = fm_trace_stats_read(a->path, &s, diag);
	if (err)
		return err;
	double whole_ns = 0;
	for (size_t i = 0; i < s->functions.n; i++)
		whole_ns += (double)s->functions.items[i].own_ns;
	whole_ns = whole_ns > 0 ? whole_ns : 1;
	fputs("digraph {\n\tgraph [fontname=Arial, nodesep=0.125, ranksep=0.25];\n"
	      "\tnode [fontname=Arial, fontcolor=white, shape=box, style=filled, height=0, width=0];\n"
	      "\tedge [fontname=Arial];\n",
	      out);
	for (size_t i = 0; i < s->functions.n; i++) {
		const struct fm_trace_function *f = &s->functions.items[i];
		double share = (double)f->total_ns / whole_ns;
		if (share < MIN_NODE_SHARE)
			continue;
		fprintf(out, "\t%zu [label=\"", i);
		put_quoted(out, f->name, '\\');
		fprintf(out, "\\n%.2f%%\\n(%.2f%%)\\n%" PRIu64 "x\", color=", 100 * share,
			100 * (double)f->own_ns / whole_ns, f->n_calls);
		put_color(out, share);
		fputs("];\n", out);
	}
	for (size_t i = 0; i < s->edges.n; i++) {
		const struct fm_trace_edge *e = &s->edges.items[i];
		double share = (double)e->total_ns / whole_ns;
		if (e->caller == FM_NO_ID || share < MIN_EDGE_SHARE ||
		    (double)s->functions.items[e->caller].total_ns / whole_ns < MIN_NODE_SHARE ||
		    (double)s->functions.items[e->callee].total_ns / whole_ns < MIN_NODE_SHARE)
			continue;
		fprintf(out, "\t%u -> %u [label=\"%.2f%%\\n%" PRIu64 "x\", color=", e->caller, e->callee, 100 * share,
			e->n_calls);
		put_color(out, share);
		fputs("];\n", out);
	}
	fputs("}\n", out);
	fm_trace_stats_free(s);
	return FM_OK;
}
