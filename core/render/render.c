// SPDX-License-Identifier: Apache-2.0
#include "render/render.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/owner.h"
#include "render/shared/formats.h"
#include "render/text/text.h"

#define STACKS FM_ANALYSIS_STACKS
#define CALLS FM_ANALYSIS_CALLS
#define BOTH (FM_ANALYSIS_STACKS | FM_ANALYSIS_CALLS)
#define CALLS_OR_STACKS (FM_ANALYSIS_TOTALS | FM_ANALYSIS_CALLS) // stacks are added where there are no calls

const struct fm_format fm_formats[] = {
	{ "text", "the report that 'fathom report' prints", ".txt", fm_write_text, BOTH },
	{ "json", "the report for machines, schema fathom.report/1", ".json", fm_write_json, BOTH },
	{ "collapsed", "one line per stack with its count: flamegraph.pl, inferno, speedscope", ".txt",
	  fm_write_collapsed, STACKS },
	{ "speedscope", "speedscope.app: one timeline per thread, left heavy, sandwich", ".json", fm_write_speedscope,
	  STACKS },
	{ "flamegraph", "interactive SVG, self-contained", ".svg", fm_write_flamegraph, STACKS },
	{ "chrometrace", "trace events: chrome://tracing, Perfetto, Tracy's import tool", ".json", fm_write_chrometrace,
	  STACKS },
	{ "perfetto", "Perfetto's own format: ui.perfetto.dev, trace_processor", ".pftrace", fm_write_perfetto,
	  STACKS },
	{ "html", "the viewer with the capture in one self-contained file", ".html", fm_write_html, STACKS },
	{ "bundle", "what the viewer's page is fed: columns, gzipped (docs/viewer-data.md)", ".fmview.gz",
	  fm_write_bundle, STACKS },
	{ "calls", "the table of a trace's calls", ".txt", fm_write_calls, CALLS, true },
	{ "pstats", "a trace's calls: pstats, snakeviz, gprof2dot, tuna", ".prof", fm_write_pstats, CALLS, true },
	{ "callgrind", "a trace's calls: callgrind_annotate, KCachegrind", ".out", fm_write_callgrind, CALLS, true },
	{ "csv", "a trace's calls, one row per function, times in nanoseconds", ".csv", fm_write_csv, CALLS, true },
	{ "lines-csv", "a trace's lines (python -m fathom -l), one row each", ".csv", fm_write_lines_csv, CALLS, true },
	{ "dot", "the call graph, for Graphviz", ".dot", fm_write_dot, CALLS_OR_STACKS, true },
	{ "callgraph-svg", "the call graph as a picture, without Graphviz", ".svg", fm_write_callgraph_svg,
	  CALLS_OR_STACKS, true },
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

struct output {
	FILE *file;
	const char *path;      // as people know it
	bool is_ours;          // to be closed
	bool is_fresh_regular; // to be removed when writing fails
};

static enum fm_err open_output(const char *path, const char *profile_path, struct output *ret, struct fm_diag *diag)
{
	if (!path || !strcmp(path, "-")) {
		*ret = (struct output){ stdout, "standard output", false, false };
		return FM_OK;
	}
	struct stat in, out;
	if (!stat(profile_path, &in) && !stat(path, &out) && in.st_dev == out.st_dev && in.st_ino == out.st_ino)
		return fm_diag_set(diag, FM_E_REFUSED, "%s is the profile itself; give another output file", path);
	FILE *file = fm_fopen_private(path, false);
	if (!file)
		return fm_diag_set(diag, FM_E_IO, "cannot write %s: %s", path, strerror(errno));
	bool is_regular = !fstat(fileno(file), &out) && S_ISREG(out.st_mode);
	*ret = (struct output){ file, path, true, is_regular };
	return FM_OK;
}

static enum fm_err close_output(struct output *out, enum fm_err err, struct fm_diag *diag)
{
	errno = 0;
	bool is_bad = fflush(out->file);
	int cause = errno;
	if (!is_bad && ferror(out->file)) {
		// An earlier write failed and stdio forgot why. The file is broken anyhow: write
		// again to hear the reason.
		clearerr(out->file);
		fputc('\n', out->file);
		fflush(out->file);
		cause = errno;
		is_bad = true;
	}
	if (out->is_ours && fclose(out->file)) {
		is_bad = true;
		cause = cause ? cause : errno;
	}
	if (is_bad && !err)
		err = fm_diag_set(diag, FM_E_IO, "cannot write %s: %s", out->path, strerror(cause ? cause : EIO));
	if (err && out->is_fresh_regular)
		unlink(out->path); // half a file would be taken for a whole one
	return err;
}

enum fm_err fm_render_open(const char *profile_path, const struct fm_view_options *options,
			   enum fm_analysis_parts parts, struct fm_analysis **ret, struct fm_diag *diag)
{
	struct fm_reader *reader;
	enum fm_err err = fm_reader_open(profile_path, &reader, diag);
	return err ? err : fm_analysis_read(reader, options, parts, NULL, ret, diag);
}

enum fm_err fm_render_html(const char *base_path, const char *path, const char *out_path,
			   const struct fm_view_options *options, struct fm_diag *diag)
{
	struct fm_analysis *a = NULL, *base = NULL;
	struct output out = { 0 };
	enum fm_err err = fm_render_open(path, options, STACKS, &a, diag);
	if (!err && base_path)
		err = fm_render_open(base_path, options, STACKS, &base, diag);
	if (!err)
		err = open_output(out_path, path, &out, diag);
	if (!err)
		err = close_output(&out, fm_html_write(out.file, base, a, diag), diag);
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
	if (options->metric != FM_METRIC_TIME && (f->is_of_calls || !a->heap.is_there)) {
		fm_analysis_close(a);
		return fm_diag_set(diag, FM_E_REFUSED, "%s has no memory in it; capture with --memory", profile_path);
	}
	struct output out = { 0 };
	err = open_output(out_path, profile_path, &out, diag);
	if (!err)
		err = close_output(&out, f->write(out.file, a, diag), diag);
	fm_analysis_close(a);
	return err;
}

enum fm_err fm_render_function(const char *profile_path, const char *name, FILE *out,
			       const struct fm_view_options *options, struct fm_diag *diag)
{
	struct fm_analysis *a;
	enum fm_err err = fm_render_open(profile_path, options, CALLS, &a, diag);
	if (err)
		return err;
	if (!fm_calls_print_function(out, a->calls, name, options))
		err = fm_diag_set(diag, FM_E_NOT_FOUND,
				  "no traced function is called '%s'; 'fathom export -f calls %s' lists them", name,
				  profile_path);
	fm_analysis_close(a);
	return err;
}
