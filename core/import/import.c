// SPDX-License-Identifier: Apache-2.0
#include "import/import.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "import/formats.h"
#include "import/sink.h"

const struct fm_importer fm_importers[] = {
	{ "collapsed", "collapsed stacks: flamegraph.pl, inferno, py-spy raw, austin, fathom export -f collapsed",
	  fm_collapsed_recognise, fm_collapsed_import },
	{ "gecko", "the Firefox Profiler's JSON, processed or raw: samply, Firefox, perf script gecko",
	  fm_gecko_recognise, fm_gecko_import },
	{ "pprof", "pprof's protocol buffer, gzipped or plain: Go, gperftools, Pyroscope, Parca", fm_pprof_recognise,
	  fm_pprof_import },
	{ "perf.data", "the file of perf record, also of a pipe, with copied stacks (--call-graph dwarf)",
	  fm_perf_data_recognise, fm_perf_data_import },
	{ "perf-script", "the text of perf script", fm_perf_script_recognise, fm_perf_script_import },
	{ "speedscope", "speedscope.app's JSON: py-spy, speedscope itself, fathom export -f speedscope",
	  fm_speedscope_recognise, fm_speedscope_import },
	{ "pstats", "pstats: cProfile, profile, yappi, fathom export -f pstats", fm_pstats_recognise,
	  fm_pstats_import },
	{ "callgrind", "callgrind: valgrind, yappi, xdebug, fathom export -f callgrind", fm_callgrind_recognise,
	  fm_callgrind_import },
	{ "chrome", "Chrome trace events: viztracer, Perfetto, fathom export -f chrometrace", fm_chrome_recognise,
	  fm_chrome_import },
	{ "tachyon", "the binary format of Python 3.15's profiling.sampling", fm_tachyon_recognise, fm_tachyon_import },
	{ "mojo", "MOJO, the format of austin", fm_mojo_recognise, fm_mojo_import },
	{ "scalene", "Scalene's JSON", fm_scalene_recognise, fm_scalene_import },
	{ "memray", "memray's recordings, by an installed memray", fm_memray_recognise, fm_memray_import },
	{ "memray-csv", "memray transform csv", fm_memray_csv_recognise, fm_memray_csv_import },
	{ 0 },
};

const struct fm_importer *fm_importer_find(const char *name)
{
	for (const struct fm_importer *i = fm_importers; i->name; i++)
		if (!strcmp(i->name, name))
			return i;
	return NULL;
}

static void list_names(struct fm_buf *b, const struct fm_importer *only_of, const uint8_t *head, size_t n)
{
	for (const struct fm_importer *i = fm_importers; i->name; i++)
		if (!only_of || i->recognise(head, n))
			fm_buf_printf(b, "%s%s", b->len ? ", " : "", i->name);
}

enum fm_err fm_import_recognise(const char *path, const struct fm_importer **ret, struct fm_diag *diag)
{
	struct fm_input *input;
	enum fm_err err = fm_input_open(path, &input, diag);
	if (err)
		return err;
	size_t n, n_found = 0;
	const uint8_t *head = fm_input_peek(input, FM_IMPORT_HEAD_BYTES, &n);
	const struct fm_importer *found = NULL;
	struct fm_buf names = { 0 };
	n = FM_MIN(n, FM_IMPORT_HEAD_BYTES);
	for (const struct fm_importer *i = fm_importers; i->name; i++)
		if (i->recognise(head, n) && ++n_found)
			found = i;
	list_names(&names, n_found > 1 ? found : NULL, head, n);
	if (n_found == 1)
		*ret = found;
	else if (n_found)
		err = fm_diag_set(diag, FM_E_BAD_MAGIC, "%s may be any of %s; say which with 'fathom import --from'",
				  path, names.data);
	else
		err = fm_diag_set(diag, FM_E_BAD_MAGIC,
				  "%s is not a Fathom profile, and none of another tool that Fathom reads: %s", path,
				  names.data);
	fm_buf_deinit(&names);
	fm_input_close(input);
	return err;
}

// A capture without a program in it is one that no output knows how to show.
static void finish(struct fm_import *in)
{
	uint64_t first_ns = UINT64_MAX, last_ns = 0;
	if (!in->threads.n)
		fm_import_thread(in, fm_import_process(in, 0), 0, FM_STR_LIT(""));
	for (uint32_t i = 0; i < in->threads.n; i++) {
		const struct fm_import_thread *t = &in->threads.items[i];
		first_ns = FM_MIN(first_ns, t->first_ns ? t->first_ns : t->now_ns);
		last_ns = FM_MAX(last_ns, t->now_ns);
		fm_writer_thread_end(in->w, i, &(struct fm_thread_totals){ t->now_ns, t->cpu_ns, t->n_dropped, 0 });
	}
	for (size_t i = 0; i < in->site_items.n; i++)
		fm_writer_site(in->w, &in->site_items.items[i]);
	fm_import_number(in, "wall_ns", in->wall_ns ? in->wall_ns : last_ns - first_ns);
	fm_writer_meta(in->w, "fathom_version", FM_STR_LIT(FM_VERSION));
	fm_writer_meta(in->w, "memory", in->site_items.n ? FM_STR_LIT("exact") : FM_STR_LIT("off"));
	if (in->has_merged_samples)
		fm_import_missing(in, "how many samples some stacks had",
				  "the file counts more than a capture can hold; their weights are right, but their "
				  "intervals are too wide");
}

static void import_deinit(struct fm_import *in)
{
	fm_input_close(in->input);
	fm_map_deinit(&in->processes);
	fm_map_deinit(&in->thread_ids);
	fm_vec_deinit(&in->pids);
	fm_vec_deinit(&in->threads);
	fm_intern_deinit(&in->names);
	fm_vec_deinit(&in->named_frames);
	fm_intern_deinit(&in->said);
	fm_map_deinit(&in->sites);
	fm_vec_deinit(&in->site_items);
}

static enum fm_err run(struct fm_import *in, const struct fm_importer *importer)
{
	fm_writer_meta(in->w, "imported", fm_str_of(importer->name));
	fm_writer_meta(in->w, "mode", FM_STR_LIT("imported"));
	fm_writer_meta(in->w, "engine", FM_STR_LIT("import"));
	enum fm_err err = importer->run(in);
	if (!err && !in->n_events)
		err = fm_diag_set(in->diag, FM_E_CORRUPT, "%s: there are no samples in it", in->path);
	if (err == FM_E_CORRUPT && in->n_events) { // what came before is worth having
		fm_import_missing(in, "the rest of the imported file", in->diag->text);
		err = FM_E_TRUNCATED;
	}
	finish(in);
	return err;
}

// OUT is written over, so it must not be what is read.
static bool is_same_file(const struct fm_input *input, const char *out)
{
	struct stat a, b;
	return !fstat(fm_input_fd(input), &a) && !stat(out, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static void remove_file(const char *path)
{
	struct stat st;
	if (!stat(path, &st) && S_ISREG(st.st_mode))
		unlink(path);
}

enum fm_err fm_import_file(const char *path, const char *out, const struct fm_import_options *options,
			   struct fm_diag *diag)
{
	struct fm_diag unread;
	struct fm_import in = { .path = path, .options = options, .diag = diag ? diag : &unread };
	const struct fm_importer *importer = options->importer;
	enum fm_err err = importer ? FM_OK : fm_import_recognise(path, &importer, diag);
	if (!err)
		err = fm_input_open(path, &in.input, diag);
	if (!err && is_same_file(in.input, out))
		err = fm_diag_set(diag, FM_E_USAGE, "cannot write %s over itself; name another file with -o", path);
	if (!err)
		err = fm_writer_open(out, &in.w, diag);
	if (!err) {
		err = run(&in, importer);
		enum fm_err closed = fm_writer_close(in.w, err ? NULL : diag);
		err = err ? err : closed;
		if (err && err != FM_E_TRUNCATED)
			remove_file(out);
	}
	import_deinit(&in);
	return err;
}
