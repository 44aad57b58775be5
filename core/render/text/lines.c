// SPDX-License-Identifier: Apache-2.0
// The line tables of the text report: per file, in the file's own order, with the source as it was
// when captured.
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "render/shared/source_line.h"
#include "render/text/text.h"
#include "render/text/table.h"

// Percent of the CPU time, the memory or the run's time; what is less is in --json.
#define MIN_PERCENT 1.0
#define MIN_PERCENT_DETAILED 0.1
#define TOP_MEMORY_LINES 5
#define SPARK_CELLS 5
#define INDENT_FROM_CELLS 50 // with less room for the source, what all shown lines are indented by is cut off

struct line {
	uint32_t file_id, line, function_id;
	const struct fm_weight *weight;        // NULL = no time
	const struct fm_line_row *row;         // whose weight that is
	const struct fm_heap_line_row *memory; // NULL = none
};

struct file {
	uint32_t file_id, function_id;
	size_t first, n; // of the lines, which are sorted by file and number
	uint64_t cpu_ns, wait_ns, alloc_bytes, peak_bytes;
	bool is_shown;
};

struct lines {
	const struct fm_text *t;
	FM_VEC(struct line) lines;
	FM_VEC(struct file) files;
	struct fm_table table;
	double least; // percent
};

static uint64_t wait_ns(const struct fm_weight *w)
{
	return w->ns[FM_CLASS_WAIT] + w->ns[FM_CLASS_GIL_WAIT];
}

static double percent_of(double part, double whole)
{
	return whole > 0 ? 100 * part / whole : 0;
}

static int compare_lines(const void *pa, const void *pb)
{
	const struct line *a = pa, *b = pb;
	return a->file_id != b->file_id ? (a->file_id > b->file_id) - (a->file_id < b->file_id)
					: (a->line > b->line) - (a->line < b->line);
}

static int compare_files(const void *pa, const void *pb)
{
	const struct file *a = pa, *b = pb;
	if (a->cpu_ns != b->cpu_ns)
		return (b->cpu_ns > a->cpu_ns) - (b->cpu_ns < a->cpu_ns);
	if (a->alloc_bytes != b->alloc_bytes)
		return (b->alloc_bytes > a->alloc_bytes) - (b->alloc_bytes < a->alloc_bytes);
	return (a->file_id > b->file_id) - (a->file_id < b->file_id);
}

static struct line *line_at(struct lines *l, struct fm_map *index, uint32_t file_id, uint32_t line,
			    uint32_t function_id)
{
	bool is_new;
	uint64_t *slot = fm_map_at(index, (uint64_t)file_id << 32 | line, &is_new);
	if (is_new) {
		*slot = l->lines.n;
		fm_vec_push(&l->lines, (struct line){ file_id, line, function_id, NULL, NULL, NULL });
	}
	return &l->lines.items[*slot];
}

static void gather(struct lines *l)
{
	const struct fm_summary *sum = l->t->summary;
	const struct fm_heap *heap = l->t->heap;
	struct fm_map index = { 0 };
	for (size_t i = 0; i < sum->lines.n; i++) {
		const struct fm_line_row *row = &sum->lines.items[i];
		if (!fm_text_shows(l->t, row->function_id))
			continue;
		struct line *line = line_at(l, &index, row->file_id, row->line, row->function_id);
		line->row = row;
		line->weight = &row->weight;
	}
	for (size_t i = 0; i < heap->lines.n; i++) {
		const struct fm_heap_line_row *row = &heap->lines.items[i];
		if (fm_text_shows(l->t, row->function_id))
			line_at(l, &index, row->file_id, row->line, row->function_id)->memory = row;
	}
	fm_map_deinit(&index);
	if (!l->lines.n)
		return;
	qsort(l->lines.items, l->lines.n, sizeof(*l->lines.items), compare_lines);
	for (size_t i = 0; i < l->lines.n; i++) {
		const struct line *line = &l->lines.items[i];
		if (!i || line[-1].file_id != line->file_id)
			fm_vec_push(&l->files, (struct file){ .file_id = line->file_id,
							      .function_id = line->function_id,
							      .first = i });
		struct file *file = &l->files.items[l->files.n - 1];
		file->n++;
		file->cpu_ns += line->weight ? fm_weight_cpu_ns(line->weight) : 0;
		file->wait_ns += line->weight ? wait_ns(line->weight) : 0;
		file->alloc_bytes += line->memory ? line->memory->f.alloc_bytes : 0;
		file->peak_bytes = FM_MAX(file->peak_bytes, line->memory ? line->memory->f.peak_bytes : 0);
	}
	qsort(l->files.items, l->files.n, sizeof(*l->files.items), compare_files);
}

// The largest share a line, file or function has of anything that is shown.
static double importance(const struct lines *l, uint64_t cpu_ns, uint64_t waiting_ns, const struct fm_heap_figures *m)
{
	const struct fm_heap *heap = l->t->heap;
	double most = percent_of(fm_seconds(cpu_ns), l->t->cpu_s);
	most = FM_MAX(most, percent_of(fm_seconds(waiting_ns), l->t->facts.wall_s));
	if (m) {
		most = FM_MAX(most, percent_of((double)fm_text_sure_alloc(m), (double)heap->alloc_bytes));
		most = FM_MAX(most, percent_of((double)fm_text_sure_peak(m), (double)heap->peak_bytes));
	}
	return most;
}

static double importance_of_line(const struct lines *l, const struct line *line)
{
	return importance(l, line->weight ? fm_weight_cpu_ns(line->weight) : 0,
			  line->weight ? wait_ns(line->weight) : 0, line->memory ? &line->memory->f : NULL);
}

static unsigned indent_of(struct fm_str line)
{
	unsigned n = 0;
	while (n < line.len && (line.p[n] == ' ' || line.p[n] == '\t'))
		n++;
	return n < line.len ? n : UINT16_MAX; // blank lines say nothing about the indentation
}

static void put_percent(char cell[static 48], double percent)
{
	if (percent >= 0.5)
		snprintf(cell, 48, "%.0f%%", percent);
}

static void fill_time(const struct lines *l, struct fm_table_row *row, const struct fm_weight *w)
{
	double cpu_s = l->t->cpu_s;
	put_percent(row->cells[FM_TABLE_PYTHON],
		    percent_of(fm_seconds(w->ns[FM_CLASS_PYTHON] + w->ns[FM_CLASS_GC]), cpu_s));
	put_percent(row->cells[FM_TABLE_NATIVE], percent_of(fm_seconds(w->ns[FM_CLASS_NATIVE]), cpu_s));
	put_percent(row->cells[FM_TABLE_SYSTEM], percent_of(fm_seconds(w->ns[FM_CLASS_SYSTEM]), cpu_s));
	double waiting_s = fm_seconds(wait_ns(w));
	if (waiting_s >= 0.005)
		snprintf(row->cells[FM_TABLE_WAITING], sizeof(row->cells[0]), waiting_s < 99.995 ? "%.2fs" : "%.0fs",
			 waiting_s);
}

static bool has_any(const uint64_t *timeline)
{
	for (unsigned i = 0; i < FM_HEAP_LINE_BUCKETS; i++)
		if (timeline[i])
			return true;
	return false;
}

static void fill_memory(const struct lines *l, struct fm_table_row *row, const struct fm_heap_figures *f,
			const uint64_t *timeline)
{
	const struct fm_heap *heap = l->t->heap;
	char text[32];
	if (fm_text_sure_alloc(f) >= 1000000 || fm_text_sure_peak(f) >= 1000000) {
		snprintf(row->cells[FM_TABLE_MEMORY_PYTHON], sizeof(row->cells[0]), "%.0f%%",
			 percent_of((double)f->python_bytes, (double)f->alloc_bytes));
		if (fm_text_sure_peak(f))
			snprintf(row->cells[FM_TABLE_PEAK], sizeof(row->cells[0]), "%s",
				 fm_style_short_bytes(f->peak_bytes, text));
		struct fm_buf spark = { 0 };
		if (timeline && has_any(timeline)) // sums alone do not know when (exact mode)
			fm_style_sparkline(&l->t->style, &spark, timeline, FM_HEAP_LINE_BUCKETS, SPARK_CELLS);
		snprintf(row->cells[FM_TABLE_TIMELINE], sizeof(row->cells[0]), "%s%4.0f%%",
			 spark.len ? (const char *)spark.data : "",
			 percent_of((double)f->alloc_bytes, (double)heap->alloc_bytes));
		fm_buf_deinit(&spark);
	}
	double mb_s = l->t->facts.wall_s > 0 ? (double)f->copy_bytes / 1e6 / l->t->facts.wall_s : 0;
	if (mb_s >= 0.5)
		snprintf(row->cells[FM_TABLE_COPY], sizeof(row->cells[0]), "%.0f", mb_s);
}

// Below a line: what of its figures is the work of other threads.
static void print_workers(const struct lines *l, const struct fm_line_row *line)
{
	double percent = line ? percent_of(fm_seconds(line->worker_ns), l->t->cpu_s) : 0;
	if (percent < 0.5)
		return;
	char text[64];
	snprintf(text, sizeof(text), "+ %u worker thread%s: %.0f%%", line->n_workers, line->n_workers == 1 ? "" : "s",
		 percent);
	fm_table_row(&l->table, &(struct fm_table_row){ .text = fm_str_of(text) });
}

static void print_lines(const struct lines *l, const struct file *file, struct fm_str name)
{
	FM_VEC(const struct line *) shown = { 0 };
	const struct line *first = &l->lines.items[file->first], *best = first;
	for (const struct line *line = first; line < first + file->n; line++) {
		if (importance_of_line(l, line) > importance_of_line(l, best))
			best = line;
		if (importance_of_line(l, line) >= l->least)
			fm_vec_push(&shown, line);
	}
	if (!shown.n)
		fm_vec_push(&shown, best);
	unsigned indent = UINT16_MAX;
	struct fm_source_walk source = fm_source_open(l->t->a->profile, name);
	bool has_source = source.p < source.end;
	for (size_t i = 0; i < shown.n; i++)
		indent = FM_MIN(indent, indent_of(fm_source_line(&source, shown.items[i]->line)));
	if (l->table.source_cells >= INDENT_FROM_CELLS)
		indent = 0;
	source = fm_source_open(l->t->a->profile, name);
	const struct fm_table_row gap = { .is_gap = true };
	uint32_t before = 0;
	for (size_t i = 0; i < shown.n; i++) {
		const struct line *line = shown.items[i];
		if (line->line > before + 1)
			fm_table_row(&l->table, &gap);
		before = line->line;
		struct fm_str text = fm_source_line(&source, line->line);
		unsigned cut = FM_MIN(indent, text.len);
		struct fm_buf in = { 0 };
		struct fm_table_row row = { .line = line->line, .text = { text.p + cut, text.len - cut } };
		if (!has_source) {
			struct fm_str function = fm_analysis_function(l->t->a, line->function_id)->name;
			fm_buf_str(&in, "in ");
			fm_buf_bytes(&in, function.p, function.len);
			row.text = (struct fm_str){ (const char *)in.data, (uint32_t)in.len };
		}
		if (line->weight)
			fill_time(l, &row, line->weight);
		if (line->memory)
			fill_memory(l, &row, &line->memory->f, line->memory->timeline);
		fm_table_row(&l->table, &row);
		print_workers(l, line->row);
		fm_buf_deinit(&in);
	}
	if (!has_source || fm_source_line(&source, before + 1).len || source.p < source.end)
		fm_table_row(&l->table, &gap);
	fm_vec_deinit(&shown);
}

struct function {
	uint32_t function_id, line;
	const struct fm_weight *weight;
	const struct fm_heap_function_row *memory;
};

static int compare_functions(const void *pa, const void *pb)
{
	const struct function *a = pa, *b = pb;
	return a->line != b->line ? (a->line > b->line) - (a->line < b->line)
				  : (a->function_id > b->function_id) - (a->function_id < b->function_id);
}

static void print_functions(const struct lines *l, const struct file *file, struct fm_str name)
{
	FM_VEC(struct function) shown = { 0 };
	const struct fm_summary *sum = l->t->summary;
	for (size_t i = 0; i < sum->functions.n; i++) {
		const struct fm_function_row *row = &sum->functions.items[i];
		const struct fm_function *f = fm_analysis_function(l->t->a, row->function_id);
		if (f->kind != FM_FRAME_PYTHON || f->file_id != file->file_id)
			continue;
		const struct fm_heap_function_row *memory = fm_text_heap_row(l->t, row->function_id);
		if (importance(l, fm_weight_cpu_ns(&row->paid), wait_ns(&row->paid), memory ? &memory->self : NULL) >=
		    l->least)
			fm_vec_push(&shown, (struct function){ row->function_id, f->line, &row->paid, memory });
	}
	if (shown.n) {
		qsort(shown.items, shown.n, sizeof(*shown.items), compare_functions);
		fm_table_row(&l->table, &(struct fm_table_row){ 0 });
		fm_table_divide(&l->table);
		struct fm_buf title = { 0 };
		fm_buf_str(&title, "function summary for ");
		fm_buf_bytes(&title, name.p, name.len);
		fm_table_row(&l->table,
			     &(struct fm_table_row){ .text = { (const char *)title.data, (uint32_t)title.len } });
		fm_buf_deinit(&title);
	}
	for (size_t i = 0; i < shown.n; i++) {
		const struct function *f = &shown.items[i];
		struct fm_table_row row = { .line = f->line,
					    .text = fm_analysis_function(l->t->a, f->function_id)->name };
		fill_time(l, &row, f->weight);
		if (f->memory)
			fill_memory(l, &row, &f->memory->self, NULL);
		fm_table_row(&l->table, &row);
	}
	fm_vec_deinit(&shown);
}

static uint64_t average(const struct line *line)
{
	return line->memory->f.avg_bytes;
}

static uint64_t peak(const struct line *line)
{
	return line->memory->f.peak_bytes;
}

static int compare_figures(const void *pa, const void *pb, void *figure)
{
	const struct line *a = *(const struct line *const *)pa, *b = *(const struct line *const *)pb;
	uint64_t (*of)(const struct line *) = *(uint64_t(**)(const struct line *))figure;
	return of(a) != of(b) ? (of(b) > of(a)) - (of(b) < of(a)) : (a > b) - (a < b);
}

static void print_top_memory(const struct lines *l, const struct file *file, const char *title,
			     uint64_t (*figure)(const struct line *))
{
	FM_VEC(const struct line *) top = { 0 };
	for (size_t i = file->first; i < file->first + file->n; i++) {
		const struct line *line = &l->lines.items[i];
		if (line->memory && fm_text_sure_peak(&line->memory->f) && figure(line) >= 500000 &&
		    figure(line) >= l->t->heap->peak_bytes / 100)
			fm_vec_push(&top, line);
	}
	if (top.n) {
		qsort_r(top.items, top.n, sizeof(*top.items), compare_figures, &figure);
		fprintf(l->t->style.out, "Top %s memory consumption, by line:\n", title);
	}
	char text[32];
	for (size_t i = 0; i < FM_MIN(top.n, (size_t)TOP_MEMORY_LINES); i++)
		fprintf(l->t->style.out, "(%zu) %5u: %8s\n", i + 1, top.items[i]->line,
			fm_style_bytes(figure(top.items[i]), text));
	fm_vec_deinit(&top);
}

static void print_leak(const struct lines *l, const struct fm_heap_leak_row *leak, struct fm_str place)
{
	struct fm_buf b = { 0 };
	fm_buf_str(&b, leak->line ? "Possible memory leak identified at " : "Possible memory leak identified in ");
	fm_buf_bytes(&b, place.p, place.len);
	if (leak->line)
		fm_buf_printf(&b, "%sline %u", place.len ? " " : "", leak->line);
	bool is_slow = leak->velocity_bytes_s < 1e6;
	fm_buf_printf(&b, " (estimated likelihood: %3.0f%%, velocity: %3.0f %s/s)", 100 * leak->likelihood,
		      leak->velocity_bytes_s / (is_slow ? 1e3 : 1e6), is_slow ? "kB" : "MB");
	if (leak->types.len) {
		fm_buf_str(&b, ", of ");
		fm_buf_bytes(&b, leak->types.p, FM_MIN(leak->types.len, 60u));
	}
	fm_style_wrap(&l->t->style, (struct fm_str){ (const char *)b.data, (uint32_t)b.len }, 0, 4);
	fm_buf_deinit(&b);
}

static void print_leaks(const struct lines *l, const struct file *file)
{
	for (size_t i = 0; i < l->t->heap->leaks.n; i++)
		if (l->t->heap->leaks.items[i].file_id == file->file_id)
			print_leak(l, &l->t->heap->leaks.items[i], FM_STR_LIT(""));
}

// Those of files without a table, and of native code that no Python called.
static void print_other_leaks(const struct lines *l)
{
	for (size_t i = 0; i < l->t->heap->leaks.n; i++) {
		const struct fm_heap_leak_row *leak = &l->t->heap->leaks.items[i];
		bool has_table = false;
		for (size_t k = 0; k < l->files.n; k++)
			has_table |= l->files.items[k].is_shown && l->files.items[k].file_id == leak->file_id;
		if (has_table)
			continue;
		struct fm_str place = FM_STR_LIT("native code");
		if (leak->function_id < fm_symbolizer_n_functions(l->t->a->symbolizer)) {
			const struct fm_function *f = fm_analysis_function(l->t->a, leak->function_id);
			place = f->file.len ? f->file : f->name;
		}
		print_leak(l, leak, place);
	}
}

static void print_file(const struct lines *l, const struct file *file)
{
	const struct fm_style *s = &l->t->style;
	struct fm_str name = fm_analysis_function(l->t->a, file->function_id)->file;
	char share[96];
	int n = snprintf(share, sizeof(share), "%% of time = %6.2f%% (%.3fs) out of %.3fs of CPU time.",
			 percent_of(fm_seconds(file->cpu_ns), l->t->cpu_s), fm_seconds(file->cpu_ns), l->t->cpu_s);
	unsigned room = l->t->table_width - 3;
	bool is_one_line = fm_style_cells(name) + 2 + (unsigned)n <= room;
	fputs("   ", s->out);
	fm_style_paint(s, FM_PAINT_BOLD);
	fm_style_fit_end(s, name, room - 1);
	fm_style_paint(s, FM_PAINT_NONE);
	fprintf(s->out, ":%s%s\n", is_one_line ? " " : "\n   ", share);
	fm_table_head(&l->table, name);
	print_lines(l, file, name);
	print_functions(l, file, name);
	fm_table_foot(&l->table);
	print_top_memory(l, file, "AVERAGE", average);
	print_top_memory(l, file, "PEAK", peak);
	print_leaks(l, file);
	fputc('\n', s->out);
}

static double importance_of_file(const struct lines *l, const struct file *file)
{
	return importance(
		l, file->cpu_ns, file->wait_ns,
		&(struct fm_heap_figures){ .alloc_bytes = file->alloc_bytes, .peak_bytes = file->peak_bytes });
}

void fm_text_lines(const struct fm_text *t)
{
	bool is_detailed = t->a->options.detailed;
	struct lines l = { .t = t, .least = is_detailed ? MIN_PERCENT_DETAILED : MIN_PERCENT };
	gather(&l);
	bool has_system = !fm_str_eq(t->facts.engine, FM_STR_LIT("perf")); // which tells none
	fm_table_init(&l.table, &t->style, t->table_width, has_system, wait_ns(&t->summary->total) > 0,
		      t->heap->is_there);
	size_t n_left_out = 0;
	for (size_t i = 0; i < l.files.n; i++) {
		struct file *file = &l.files.items[i];
		file->is_shown = i == 0 || importance_of_file(&l, file) >= l.least;
		if (file->is_shown)
			print_file(&l, file);
		else
			n_left_out++;
	}
	print_other_leaks(&l);
	if (n_left_out)
		fprintf(t->style.out, "%zu more file%s with less than %g%% %s left out%s.\n", n_left_out,
			n_left_out == 1 ? "" : "s", l.least, n_left_out == 1 ? "is" : "are",
			is_detailed       ? ""
			: n_left_out == 1 ? "; --detailed shows it"
					  : "; --detailed shows them");
	fm_vec_deinit(&l.lines);
	fm_vec_deinit(&l.files);
}
