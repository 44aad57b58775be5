// SPDX-License-Identifier: Apache-2.0
#include "render/render.h"

#include <string.h>

#include "aggregate/analysis/focus.h"
#include "base/utf8.h"
#include "render/json/report_json.h"
#include "render/shared/formats.h"
#include "render/shared/destination.h"
#include "render/text/text.h"

#define STACKS FM_ANALYSIS_STACKS
#define CALLS FM_ANALYSIS_CALLS
#define BOTH (FM_ANALYSIS_STACKS | FM_ANALYSIS_CALLS)
#define CALLS_OR_STACKS (FM_ANALYSIS_TOTALS | FM_ANALYSIS_CALLS) // stacks are added where there are no calls

const struct fm_format fm_formats[] = {
	{ "text", "the report that 'fathom report' prints", ".txt", fm_write_text, BOTH },
	{ "json", "the report for machines, schema fathom.report/1", ".json", fm_write_json, BOTH },
	{ "markdown", "the verdict and the lines worth changing in 8 KB: 'fathom report --markdown'", ".md",
	  fm_write_markdown, STACKS },
	{ "collapsed", "one line per stack with its count: flamegraph.pl, inferno, speedscope", ".txt",
	  fm_write_collapsed, STACKS },
	{ "speedscope", "speedscope.app: one timeline per thread, left heavy, sandwich", ".json", fm_write_speedscope,
	  STACKS },
	{ "flamegraph", "interactive SVG, self-contained", ".svg", fm_write_flamegraph, STACKS },
	{ "chrometrace", "trace events: chrome://tracing, Perfetto, Tracy's import tool", ".json", fm_write_chrometrace,
	  STACKS },
	{ "perfetto", "Perfetto's own format: ui.perfetto.dev, trace_processor", ".pftrace", fm_write_perfetto,
	  STACKS },
	{ "perf", "perf.data, with a file of names beside it: perf report, perf script, Hotspot", ".data",
	  fm_write_perf_data, STACKS },
	{ "pprof", "pprof: CPU, waiting and memory in one file, with labels: go tool pprof, speedscope", ".pb.gz",
	  fm_write_pprof, STACKS },
	{ "gecko", "the Firefox Profiler: threads, categories, zones as markers, memory", ".gecko.json", fm_write_gecko,
	  STACKS },
	{ "cpuprofile", "one thread's samples: VS Code, Chrome's developer tools, speedscope", ".cpuprofile",
	  fm_write_cpuprofile, STACKS },
	{ "otlp", "OpenTelemetry's profiles, as protobuf (v1development, opentelemetry-proto 1.9 to 1.11)", ".otlp",
	  fm_write_otlp, STACKS },
	{ "html", "the viewer with the capture in one self-contained file", ".html", fm_write_html, STACKS },
	{ "bundle", "the data of the viewer's page: columns, gzipped (docs/viewer-data.md)", ".fmview.gz",
	  fm_write_bundle, STACKS },
	{ "calls", "the table of a trace's calls", ".txt", fm_write_calls, CALLS, true },
	{ "pstats", "a trace's calls, else samples: pstats, snakeviz, gprof2dot, tuna", ".prof", fm_write_pstats,
	  CALLS_OR_STACKS, true },
	{ "callgrind", "a trace's calls: callgrind_annotate, KCachegrind", ".out", fm_write_callgrind, CALLS, true },
	{ "csv", "a trace's calls, one row per function, times in nanoseconds", ".csv", fm_write_csv, CALLS, true },
	{ "lines-csv", "a trace's lines (python -m fathom -l), one row each", ".csv", fm_write_lines_csv, CALLS, true },
	{ "dot", "the call graph, for Graphviz", ".dot", fm_write_dot, CALLS_OR_STACKS, true },
	{ "callgraph-svg", "the call graph as a picture, without Graphviz", ".svg", fm_write_callgraph_svg,
	  CALLS_OR_STACKS, true },
	{ "sqlite", "the tables of 'fathom query' in a SQLite database", ".sqlite", fm_write_sqlite, BOTH },
	{ "raw", "the same as collapsed, under py-spy's name", ".txt", fm_write_collapsed, STACKS },
	{ NULL, NULL, NULL, NULL },
};

const struct fm_format *fm_format_find(const char *name)
{
	for (const struct fm_format *f = fm_formats; f->name; f++)
		if (!strcmp(f->name, name))
			return f;
	return NULL;
}

enum fm_err fm_render_open(const char *profile_path, const struct fm_view_options *options,
			   enum fm_analysis_parts parts, struct fm_analysis **ret, struct fm_diag *diag)
{
	struct fm_reader *reader;
	enum fm_err err = fm_reader_open(profile_path, &reader, diag);
	return err ? err : fm_analysis_read(reader, options, parts, NULL, ret, diag);
}

enum fm_err fm_render_as(const struct fm_format *format, struct fm_analysis *a, const char *out_path,
			 const struct fm_view_options *options, struct fm_diag *diag)
{
	if (options->metric != FM_METRIC_TIME && (format->is_of_calls || !a->heap.is_there))
		return fm_diag_set(diag, FM_E_REFUSED, "%s has no memory in it; capture with --memory", a->path);
	struct fm_destination out = { 0 };
	a->options = *options;
	enum fm_err err = fm_destination_open(out_path, fm_reader_path(a->reader), &out, diag);
	return err ? err : fm_destination_close(&out, format->write(out.file, a, diag), diag);
}

enum fm_err fm_render_html(const char *base_path, const char *path, const char *out_path,
			   const struct fm_view_options *options, struct fm_diag *diag)
{
	struct fm_analysis *a = NULL, *base = NULL;
	struct fm_destination out = { 0 };
	enum fm_err err = fm_render_open(path, options, STACKS, &a, diag);
	if (!err && base_path)
		err = fm_render_open(base_path, options, STACKS, &base, diag);
	if (!err)
		err = fm_destination_open(out_path, path, &out, diag);
	if (!err)
		err = fm_destination_close(&out, fm_html_write(out.file, base, a, diag), diag);
	fm_analysis_close(base);
	fm_analysis_close(a);
	return err;
}

enum fm_err fm_render_write(const char *format, const char *profile_path, const char *out_path,
			    const struct fm_view_options *options, struct fm_diag *diag)
{
	const struct fm_format *f = fm_format_find(format);
	if (!f)
		return fm_diag_set(diag, FM_E_USAGE, "no format named '%s'; 'fathom export --list' names them", format);
	enum fm_analysis_parts parts = f->parts;
	if (f->write == fm_write_text && options->form != FM_TEXT_WHOLE)
		parts = STACKS; // neither the screen nor the tree lists calls
	struct fm_analysis *a;
	enum fm_err err = fm_render_open(profile_path, options, parts, &a, diag);
	if (err)
		return err;
	err = fm_render_as(f, a, out_path, options, diag);
	fm_analysis_close(a);
	return err;
}

static void describe(struct fm_buf *ret, const struct fm_analysis *a, const struct fm_focus_found *found)
{
	for (size_t i = 0; i < FM_MIN(found->n, (size_t)FM_FOCUS_MAX_FOUND); i++) {
		struct fm_str name = fm_focus_name(a, &found->places[i]), file = fm_focus_file(a, &found->places[i]);
		fm_buf_str(ret, "  ");
		fm_utf8_clean(ret, name);
		fm_buf_str(ret, name.len && file.len ? "  " : "");
		fm_utf8_clean(ret, file);
		if (fm_focus_line(a, &found->places[i]))
			fm_buf_printf(ret, ":%u", fm_focus_line(a, &found->places[i]));
		fm_buf_u8(ret, '\n');
	}
}

static enum fm_err write_focus(FILE *out, struct fm_analysis *a, const struct fm_focus_place *place,
			       enum fm_focus_form form)
{
	struct fm_focus f;
	fm_focus_build(&f, a, place);
	if (form == FM_FOCUS_JSON) {
		fm_focus_json(out, a, &f);
	} else {
		struct fm_text t;
		fm_text_init(&t, out, a);
		(form == FM_FOCUS_MARKDOWN ? fm_text_focus_markdown : fm_text_focus)(&t, &f);
		fm_text_deinit(&t);
	}
	fm_focus_deinit(&f);
	return FM_OK;
}

enum fm_err fm_render_focus(const char *profile_path, const char *word, enum fm_focus_form form, const char *out_path,
			    const struct fm_view_options *options, struct fm_buf *ret_found, struct fm_diag *diag)
{
	struct fm_analysis *a;
	enum fm_err err = fm_render_open(profile_path, options, BOTH, &a, diag);
	if (err)
		return err;
	struct fm_focus_found found;
	fm_focus_find(&found, a, fm_str_of(word));
	struct fm_destination out = { 0 };
	if (found.is_exact && found.n == 1) {
		err = fm_destination_open(out_path, profile_path, &out, diag);
		if (!err)
			err = fm_destination_close(&out, write_focus(out.file, a, &found.places[0], form), diag);
	} else if (found.is_exact) {
		err = fm_diag_set(diag, FM_E_USAGE,
				  "%zu functions or lines fit '%s'; name one by its place, FILE:LINE%s", found.n, word,
				  found.n > FM_FOCUS_MAX_FOUND ? "; those with the most time are" : "");
	} else {
		err = fm_diag_set(diag, FM_E_USAGE, "no function or line that was seen is called '%s'%s", word,
				  found.n ? "; it may be one of these" : "");
	}
	if (err)
		describe(ret_found, a, &found);
	fm_analysis_close(a);
	return err;
}
