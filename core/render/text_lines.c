// The line tables of the text report: per file, in the file's own order, with the source as it was when captured.
#include <stdlib.h>
#include <string.h>

#include "render/text.h"

#define MAX_FILES 6
#define MAX_LINES 15       // per file
#define MIN_FILE_SHARE 1.0 // percent of the CPU time; what is less is in --json
#define MIN_LINE_SHARE 0.5

struct file {
	uint32_t file_id;
	struct fm_weight weight;
};

static int compare_files(const void *pa, const void *pb)
{
	const struct file *a = pa, *b = pb;
	uint64_t ta = fm_weight_cpu_ns(&a->weight), tb = fm_weight_cpu_ns(&b->weight);
	return ta != tb ? (tb > ta) - (tb < ta) : (a->file_id > b->file_id) - (a->file_id < b->file_id);
}

static int compare_line_numbers(const void *pa, const void *pb)
{
	const struct fm_line_row *a = *(const struct fm_line_row *const *)pa,
				 *b = *(const struct fm_line_row *const *)pb;
	return (a->line > b->line) - (a->line < b->line);
}

// Walks a source text forward; lines are asked for in rising order.
struct source {
	const char *p, *end;
	uint32_t line; // of p
};

static struct source open_source(const struct fm_profile *p, struct fm_str filename)
{
	for (size_t i = 0; i < p->sources.n; i++)
		if (fm_str_eq(p->sources.items[i].filename, filename))
			return (struct source){ p->sources.items[i].text.p,
						p->sources.items[i].text.p + p->sources.items[i].text.len, 1 };
	return (struct source){ "", "", 1 };
}

static struct fm_str source_line(struct source *s, uint32_t line)
{
	while (s->line < line && s->p < s->end) {
		const char *newline = memchr(s->p, '\n', (size_t)(s->end - s->p));
		s->p = newline ? newline + 1 : s->end;
		s->line++;
	}
	if (s->line != line || s->p >= s->end)
		return (struct fm_str){ "", 0 };
	const char *newline = memchr(s->p, '\n', (size_t)(s->end - s->p));
	uint32_t len = (uint32_t)((newline ? newline : s->end) - s->p);
	return (struct fm_str){ s->p, len && s->p[len - 1] == '\r' ? len - 1 : len };
}

static unsigned indent_of(struct fm_str line)
{
	unsigned n = 0;
	while (n < line.len && (line.p[n] == ' ' || line.p[n] == '\t'))
		n++;
	return n < line.len ? n : UINT16_MAX; // blank lines say nothing about the indentation
}

static void put_cell(const struct fm_text *t, uint64_t ns, const char *bar)
{
	double percent = t->cpu_s > 0 ? 100 * fm_seconds(ns) / t->cpu_s : 0;
	if (percent >= 0.05)
		fprintf(t->style.out, "%6.1f%% %s", percent, bar);
	else
		fprintf(t->style.out, "%7s %s", "", bar);
}

static void print_row(const struct fm_text *t, const struct fm_line_row *row, struct fm_str text, const char *bar)
{
	const struct fm_style *s = &t->style;
	const uint64_t *ns = row->weight.ns;
	fprintf(s->out, "%6u %s", row->line, bar);
	put_cell(t, ns[FM_CLASS_PYTHON] + ns[FM_CLASS_GC], bar);
	put_cell(t, ns[FM_CLASS_NATIVE], bar);
	put_cell(t, ns[FM_CLASS_SYSTEM], bar);
	fprintf(s->out, "%5.1f %s",
		t->cpu_s > 0 ? 100 * fm_summary_plus_minus_s(&t->summary, &row->weight) / t->cpu_s : 0, bar);
	fputc(' ', s->out);
	unsigned room = s->width - 49;
	if (text.len) {
		fm_style_fit(s, text, room, false);
	} else { // no source was captured
		fm_style_paint(s, FM_PAINT_DIM);
		fputs("in ", s->out);
		fm_style_fit(s, fm_analysis_function(t->a, row->function_id)->name, room - 3, false);
		fm_style_paint(s, FM_PAINT_NONE);
	}
	fputc('\n', s->out);
}

static void print_file(const struct fm_text *t, const struct file *file)
{
	const struct fm_style *s = &t->style;
	const char *bar = s->has_utf8 ? "│" : "|";
	FM_VEC(const struct fm_line_row *) rows = { 0 };
	size_t n_all = 0;
	for (size_t i = 0; i < t->summary.lines.n; i++) {
		const struct fm_line_row *row = &t->summary.lines.items[i];
		if (row->file_id != file->file_id)
			continue;
		n_all++;
		if (rows.n < MAX_LINES && (fm_text_percent(t, &row->weight) >= MIN_LINE_SHARE || !rows.n))
			fm_vec_push(&rows, row);
	}
	struct fm_str name = fm_analysis_function(t->a, rows.items[0]->function_id)->file;
	qsort(rows.items, rows.n, sizeof(*rows.items), compare_line_numbers);

	fputc('\n', s->out);
	fm_style_paint(s, FM_PAINT_BOLD);
	fm_style_fit_end(s, name, s->width - 36);
	fm_style_paint(s, FM_PAINT_NONE);
	fprintf(s->out, ": %.1f%% of the time (%.3f s)\n", fm_text_percent(t, &file->weight),
		fm_seconds(fm_weight_cpu_ns(&file->weight)));
	fm_style_paint(s, FM_PAINT_DIM);
	fprintf(s->out, "%6s %s%7s %s%7s %s%7s %s%*s %s\n", "line", bar, "Python", bar, "native", bar, "system", bar,
		s->has_utf8 ? 6 : 5, s->has_utf8 ? "±" : "+-", bar);
	fm_style_paint(s, FM_PAINT_NONE);
	// What all shown lines are indented by is room for code.
	unsigned indent = UINT16_MAX;
	struct source source = open_source(t->a->profile, name);
	for (size_t i = 0; i < rows.n; i++)
		indent = FM_MIN(indent, indent_of(source_line(&source, rows.items[i]->line)));
	source = open_source(t->a->profile, name);
	for (size_t i = 0; i < rows.n; i++) {
		if (i && rows.items[i]->line > rows.items[i - 1]->line + 1)
			fprintf(s->out, "%6s %s%8s%s%8s%s%8s%s%6s%s\n", "...", bar, "", bar, "", bar, "", bar, "", bar);
		struct fm_str text = source_line(&source, rows.items[i]->line);
		unsigned cut = FM_MIN(indent, text.len);
		print_row(t, rows.items[i], (struct fm_str){ text.p + cut, text.len - cut }, bar);
	}
	if (n_all > rows.n)
		fprintf(s->out, "       %zu more lines with less time are in --json\n", n_all - rows.n);
	fm_vec_deinit(&rows);
}

void fm_text_lines(const struct fm_text *t)
{
	FM_VEC(struct file) files = { 0 };
	struct fm_map index = { 0 };
	for (size_t i = 0; i < t->summary.lines.n; i++) {
		bool is_new;
		uint64_t *slot = fm_map_at(&index, t->summary.lines.items[i].file_id, &is_new);
		if (is_new) {
			*slot = files.n;
			fm_vec_push(&files, (struct file){ .file_id = t->summary.lines.items[i].file_id });
		}
		fm_weight_add(&files.items[*slot].weight, &t->summary.lines.items[i].weight);
	}
	fm_map_deinit(&index);
	if (files.n) {
		qsort(files.items, files.n, sizeof(*files.items), compare_files);
		fm_style_heading(&t->style,
				 t->a->options.detailed
					 ? "Lines, native callees charged to the Python line"
					 : "Lines of your code, with what they call in libraries and native code");
	}
	for (size_t i = 0; i < FM_MIN(files.n, (size_t)MAX_FILES); i++)
		if (i == 0 || fm_text_percent(t, &files.items[i].weight) >= MIN_FILE_SHARE)
			print_file(t, &files.items[i]);
	fm_vec_deinit(&files);
}
