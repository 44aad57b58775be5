// SPDX-License-Identifier: Apache-2.0
// The capture itself: facts of the run, what it did not see, its files, and these tables.
#include "render/query/columns.h"

// ---- meta ----

static const struct fm_column meta_columns[] = {
	FM_TEXT("command", "command line that was profiled"),
	FM_TEXT("python", "version of its Python"),
	FM_TEXT("started", "date and time, UTC"),
	FM_INT_OR_NULL("exit_code", "NULL: not known, or ended by a signal"),
	FM_INT_OR_NULL("exit_signal", "the signal that ended it, or NULL"),
	FM_REAL("wall_s", "time from start to end"),
	FM_REAL("cpu_s", "CPU time of all processes, as the kernel counted it where that is known"),
	FM_REAL("no_cpu_s", "how long the main thread was ready while no CPU was free"),
	FM_INT("rate_hz", "samples per second of CPU time that were asked for"),
	FM_TEXT("engine", "what caused samples: ticker or perf"),
	FM_INT("samples", "samples in the capture"),
	FM_INT("wait_samples", "of these: polls of threads that waited"),
	FM_INT("dropped", "samples that were lost because a ring was full"),
	FM_INT("failed_unwinds", "samples whose stack is not whole"),
	FM_REAL("overhead_s", "CPU time that profiling took in the program"),
	FM_INT("max_rss_bytes", "the most resident memory"),
	FM_CLASS_COLUMNS,
	FM_REAL("worker_s", "CPU time of native threads that is charged to the line they work for"),
	FM_REAL("untied_s", "CPU time of native threads that is charged to no line"),
	FM_INT_OR_NULL("alloc_bytes", "allocated in the whole run; NULL: memory was not captured"),
	FM_INT_OR_NULL("peak_bytes", "the most that the program held, or NULL"),
	FM_INT_OR_NULL("live_bytes", "held at the end, or NULL"),
	FM_INT_OR_NULL("copy_bytes", "copied by memcpy and kin, or NULL"),
	FM_INT_OR_NULL("traced_calls", "calls in the trace; NULL: it was not traced"),
};

static uint64_t count_one(struct fm_query_data *d)
{
	fm_query_facts(d);
	return 1;
}

static void meta_row(struct fm_query_data *d, uint64_t i, struct fm_row *r)
{
	const struct fm_facts *f = fm_query_facts(d);
	const struct fm_heap *h = &d->a->heap;
	fm_row_put(r, (struct fm_value){ .kind = FM_VALUE_COMMAND, .text = f->command });
	fm_row_text(r, f->python);
	fm_row_text(r, f->started);
	fm_row_exit(r, f->exit_code, f->exit_signal);
	fm_row_real(r, f->wall_s);
	fm_row_real(r, f->cpu_s);
	fm_row_real(r, f->no_cpu_s);
	fm_row_u64(r, f->rate_hz);
	fm_row_text(r, f->engine);
	fm_row_u64(r, f->n_samples);
	fm_row_u64(r, f->n_waits);
	fm_row_u64(r, f->n_dropped);
	fm_row_u64(r, d->summary->n_failed_unwinds);
	fm_row_real(r, f->overhead_s);
	fm_row_u64(r, f->max_rss_bytes);
	fm_row_classes(r, &d->summary->total);
	fm_row_seconds(r, fm_weight_cpu_ns(&d->summary->workers));
	fm_row_seconds(r, fm_weight_cpu_ns(&d->summary->untied));
	const uint64_t memory[] = { h->alloc_bytes, h->peak_bytes, h->live_bytes, h->copy_bytes };
	for (size_t k = 0; k < FM_ARRAY_LEN(memory); k++) {
		if (h->is_there)
			fm_row_u64(r, memory[k]);
		else
			fm_row_null(r);
	}
	if (d->a->calls && fm_analysis_has_calls(d->a))
		fm_row_u64(r, d->a->calls->n_calls);
	else
		fm_row_null(r);
}

// ---- coverage ----

static const struct fm_column coverage_columns[] = {
	FM_TEXT("what", "what was not seen"),
	FM_TEXT("why", "and why, with the remedy where there is one"),
};

static uint64_t count_coverage(struct fm_query_data *d)
{
	fm_query_need_coverage(d);
	return d->coverage.n;
}

static void coverage_row(struct fm_query_data *d, uint64_t i, struct fm_row *r)
{
	fm_row_text(r, d->coverage.items[i].what);
	fm_row_text(r, d->coverage.items[i].why);
}

// ---- files, libraries ----

static const struct fm_column file_columns[] = {
	FM_TEXT("path", "of the file, as the program named it"),
	FM_TEXT("kind", "source: the capture keeps its text; image: a program or library that was mapped"),
	FM_TEXT_OR_NULL("build_id", "of an image; NULL: it is no image, empty: it has none"),
	FM_INT_OR_NULL("bytes", "of a source: its length, else NULL"),
	FM_TEXT_OR_NULL("text", "of a source: the whole of it, else NULL"),
};

static uint64_t count_files(struct fm_query_data *d)
{
	return d->a->profile->sources.n + d->a->profile->images.n;
}

static void file_row(struct fm_query_data *d, uint64_t i, struct fm_row *r)
{
	const struct fm_profile *p = d->a->profile;
	if (i < p->sources.n) {
		const struct fm_source *source = &p->sources.items[i];
		fm_row_text(r, source->filename);
		fm_row_text(r, FM_STR_LIT("source"));
		fm_row_null(r);
		fm_row_u64(r, source->text.len);
		fm_row_text(r, source->text);
		return;
	}
	const struct fm_image *image = &p->images.items[i - p->sources.n];
	fm_row_text(r, image->path);
	fm_row_text(r, FM_STR_LIT("image"));
	fm_row_put(r, (struct fm_value){ .kind = FM_VALUE_HEX, .text = image->build_id });
	fm_row_null(r);
	fm_row_null(r);
}

static const struct fm_column library_columns[] = {
	FM_TEXT("path", "of the native library"),
	FM_REAL("share", "of all CPU time: samples with a frame of it, 0 to 1"),
	FM_REAL("named_share", "of these: its innermost frame has a function's name"),
	FM_REAL("lines_share", "of these: its innermost frame has a source line"),
	FM_TEXT("remedy", "what would help; empty when less than a tenth is missing"),
};

static uint64_t count_libraries(struct fm_query_data *d)
{
	fm_query_need_libraries(d);
	return d->libraries.rows.n;
}

static void library_row(struct fm_query_data *d, uint64_t i, struct fm_row *r)
{
	const struct fm_library_row *row = &d->libraries.rows.items[i];
	fm_row_text(r, row->path);
	fm_row_real(r, row->share);
	fm_row_real(r, row->named_share);
	fm_row_real(r, row->lines_share);
	fm_row_text(r, row->remedy);
}

// ---- columns ----

static const struct fm_column column_columns[] = {
	FM_TEXT("table_name", "one of these tables"),
	FM_TEXT("name", "of one of its columns"),
	FM_TEXT("type", "INTEGER, REAL or TEXT"),
	FM_TEXT("meaning", "what it holds; names that end in _s are seconds"),
};

static uint64_t count_columns(struct fm_query_data *d)
{
	uint64_t n = 0;
	for (unsigned t = 0; t < fm_query_n_tables(); t++)
		n += fm_query_table_at(t)->n_columns;
	return n;
}

static void column_row(struct fm_query_data *d, uint64_t i, struct fm_row *r)
{
	const struct fm_query_table *table = fm_query_table_at(0);
	for (unsigned t = 1; i >= table->n_columns; t++) {
		i -= table->n_columns;
		table = fm_query_table_at(t);
	}
	fm_row_text(r, fm_str_of(table->name));
	fm_row_text(r, fm_str_of(table->columns[i].name));
	fm_row_text(r, fm_str_of(fm_column_types[table->columns[i].type]));
	fm_row_text(r, fm_str_of(table->columns[i].meaning));
}

const struct fm_query_table fm_query_about_tables[] = {
	{ "meta", "the run as a whole: one row", FM_COLUMNS(meta_columns), 1, FM_ANALYSIS_STACKS | FM_ANALYSIS_CALLS,
	  count_one, meta_row },
	{ "coverage", "what was not seen, and why", FM_COLUMNS(coverage_columns), 5, FM_ANALYSIS_STACKS, count_coverage,
	  coverage_row },
	{ "files", "source files that the capture keeps, and programs and libraries that were mapped",
	  FM_COLUMNS(file_columns), 100, FM_ANALYSIS_STACKS, count_files, file_row },
	{ "libraries", "how well native libraries could be named; most time first", FM_COLUMNS(library_columns), 10,
	  FM_ANALYSIS_STACKS, count_libraries, library_row },
	{ "columns", "these tables and their columns", FM_COLUMNS(column_columns), 200, 0, count_columns, column_row },
	{ 0 },
};
