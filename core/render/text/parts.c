// SPDX-License-Identifier: Apache-2.0
// The shorter sections of the text report: threads, processes, what was not seen, libraries without
// names, cells of a notebook.
#include <stdlib.h>
#include <string.h>

#include "aggregate/tree/libraries.h"
#include "render/shared/facts.h"
#include "render/shared/label.h"
#include "render/shared/nb_cells.h"
#include "render/text/text.h"

#define MAX_ROWS 10
#define STATUS_CELLS 8 // "skipped" is the longest
// Threads and processes below this share of the time are counted, not listed: a shell script has
// dozens of them.
#define MIN_ROW_PERCENT 0.5

static void print_rest(const struct fm_text *t, size_t n)
{
	if (n)
		fprintf(t->style.out, "%22s and %zu more with less; --json lists them all\n", "", n);
}

// Without looks at it while it waited, as everywhere in the text.
static uint64_t n_samples_of(const struct fm_text *t, const struct fm_thread_row *row)
{
	const struct fm_tally *tally = &t->a->tally;
	return row->n - (row->thread_id < tally->threads.n ? tally->threads.items[row->thread_id].n_waits : 0);
}

void fm_text_threads(const struct fm_text *t)
{
	const struct fm_style *s = &t->style;
	const struct fm_profile *p = t->a->profile;
	size_t n = 0, shown = 1;
	char count[32];
	for (size_t i = 0; i < t->summary->threads.n; i++)
		n += t->summary->threads.items[i].n > 0;
	if (n < 2)
		return;
	fm_text_heading(t, "", "%zu Threads:", n);
	fprintf(s->out, "%8s %8s %11s %6s %10s  %s\n", "pid", "tid", "CPU", "", "samples", "name");
	while (shown < FM_MIN(n, (size_t)MAX_ROWS) &&
	       fm_text_percent(t, &t->summary->threads.items[shown].weight) >= MIN_ROW_PERCENT)
		shown++;
	for (size_t i = 0; i < shown; i++) {
		const struct fm_thread_row *row = &t->summary->threads.items[i];
		const struct fm_thread *thread =
			row->thread_id < p->threads.n ? &p->threads.items[row->thread_id] : NULL;
		uint32_t process = fm_label_process_of(t->a, row->thread_id);
		fprintf(s->out, "%8u %8u %9.3f s %5.1f%% %10s%s",
			process != FM_NO_ID ? p->processes.items[process].info.pid : 0, thread ? thread->tid : 0,
			fm_seconds(fm_weight_cpu_ns(&row->weight)), fm_text_percent(t, &row->weight),
			fm_style_count(n_samples_of(t, row), count), thread && thread->name.len ? "  " : "");
		fm_style_fit(s, thread ? thread->name : FM_STR_LIT(""), s->width - 49, false);
		fputc('\n', s->out);
	}
	print_rest(t, n - shown);
}

static int compare_processes(const void *pa, const void *pb)
{
	const struct fm_process_row *a = pa, *b = pb;
	uint64_t ta = fm_weight_cpu_ns(&a->weight), tb = fm_weight_cpu_ns(&b->weight);
	return ta != tb ? (tb > ta) - (tb < ta) : (a->process_id > b->process_id) - (a->process_id < b->process_id);
}

void fm_text_processes(const struct fm_text *t)
{
	const struct fm_style *s = &t->style;
	const struct fm_profile *p = t->a->profile;
	size_t n = t->summary->processes.n, shown = 1;
	if (n < 2)
		return;
	unsigned n_processes = fm_facts_n_processes(p);
	if (n_processes == n)
		fm_text_heading(t, "", "%zu Processes:", n);
	else
		fm_text_heading(t, "", "%u Processes, with exec %zu Programs:", n_processes, n);
	fprintf(s->out, "%8s %8s %11s %6s  %-9s %s\n", "pid", "parent", "CPU", "", "exit", "command");
	struct fm_process_row *rows = fm_alloc(n * sizeof(*rows));
	memcpy(rows, t->summary->processes.items, n * sizeof(*rows));
	qsort(rows, n, sizeof(*rows), compare_processes);
	while (shown < FM_MIN(n, (size_t)MAX_ROWS) && fm_text_percent(t, &rows[shown].weight) >= MIN_ROW_PERCENT)
		shown++;
	for (size_t i = 0; i < shown; i++) {
		const struct fm_process *process = &p->processes.items[rows[i].process_id];
		char exit_text[24] = "?";
		if (process->exit_signal)
			snprintf(exit_text, sizeof(exit_text), "signal %d", process->exit_signal);
		else if (process->exit_code >= 0)
			snprintf(exit_text, sizeof(exit_text), "%d", process->exit_code);
		fprintf(s->out, "%8u %8u %9.3f s %5.1f%%  %-9s ", process->info.pid, process->info.parent_pid,
			fm_seconds(fm_weight_cpu_ns(&rows[i].weight)), fm_text_percent(t, &rows[i].weight), exit_text);
		struct fm_buf command = { 0 };
		fm_label_worker(&command, &process->info);
		fm_style_fit(s, (struct fm_str){ (const char *)command.data, (uint32_t)command.len }, s->width - 48,
			     false);
		fm_buf_deinit(&command);
		fputc('\n', s->out);
	}
	print_rest(t, n - shown);
	free(rows);
}

struct gaps {
	const struct fm_text *t;
	unsigned n;
};

static void print_gap(void *ctx, struct fm_str what, struct fm_str why)
{
	struct gaps *gaps = ctx;
	const struct fm_style *s = &gaps->t->style;
	if (gaps->n++ == 0)
		fm_text_heading(gaps->t, "", "Not Seen, and Why:");
	struct fm_buf line = { 0 };
	fm_buf_bytes(&line, what.p, what.len);
	fm_buf_str(&line, ": ");
	fm_buf_bytes(&line, why.p, why.len);
	fputs("  - ", s->out);
	fm_style_wrap(s, (struct fm_str){ (const char *)line.data, (uint32_t)line.len }, 4, 4);
	fm_buf_deinit(&line);
}

void fm_text_not_seen(const struct fm_text *t)
{
	struct gaps gaps = { t, 0 };
	fm_facts_coverage(t->a, &t->facts, t->summary, print_gap, &gaps);
}

static void print_library(const struct fm_text *t, const struct fm_library_row *row)
{
	const struct fm_style *s = &t->style;
	fprintf(s->out, "%7.1f%% %9.1f%% %7.1f%%   ", 100 * row->share, 100 * row->named_share, 100 * row->lines_share);
	struct fm_str name = t->a->options.full_filenames ? row->path : fm_label_last_part(row->path);
	fm_style_fit_end(s, name.len ? name : FM_STR_LIT("(outside any library)"), s->width - 31);
	fputc('\n', s->out);
}

// Only libraries that lack something. One remedy may help many: those of a wheel stand together, above it.
void fm_text_libraries(const struct fm_text *t)
{
	const struct fm_style *s = &t->style;
	struct fm_libraries l;
	fm_libraries_build(&l, &t->a->tally, &t->a->view, t->a->symbolizer);
	bool *is_told = fm_alloc((l.rows.n + 1) * sizeof(*is_told)), has_heading = false;
	for (size_t i = 0; i < l.rows.n; i++) {
		struct fm_str remedy = l.rows.items[i].remedy;
		if (!remedy.len || is_told[i])
			continue;
		if (!has_heading) {
			fm_text_heading(t, "", "Native Code without Names or Lines:");
			fprintf(s->out, "%8s %10s %8s   %s\n", "of time", "functions", "lines",
				"library, and what would help");
			has_heading = true;
		}
		for (size_t k = i; k < l.rows.n; k++) {
			if (!fm_str_eq(l.rows.items[k].remedy, remedy))
				continue;
			print_library(t, &l.rows.items[k]);
			is_told[k] = true;
		}
		fprintf(s->out, "%*s", 31, "");
		fm_style_paint(s, FM_PAINT_DIM);
		fm_style_wrap(s, remedy, 31, 31);
		fm_style_paint(s, FM_PAINT_NONE);
	}
	free(is_told);
	fm_libraries_deinit(&l);
}

void fm_text_cells(const struct fm_text *t)
{
	const struct fm_style *s = &t->style;
	struct fm_str rest = fm_profile_meta(t->a->profile, "notebook_cells", FM_STR_LIT(""));
	struct fm_nb_cell cell;
	if (!rest.len)
		return;
	fm_text_heading(t, "", "Cells of the notebook, in the order they ran:");
	fprintf(s->out, "  cell        wall         CPU\n");
	while (fm_nb_cells_next(&rest, &cell)) {
		fprintf(s->out, "  %4u %9.3f s %9.3f s  ", cell.number, cell.wall_s, cell.cpu_s);
		unsigned room = s->width > 34 ? s->width - 34 : 10;
		if (!fm_str_eq(cell.status, FM_STR_LIT("ok"))) {
			fm_style_paint(s, FM_PAINT_RED);
			fm_style_fit(s, cell.status, STATUS_CELLS, false);
			fm_style_paint(s, FM_PAINT_NONE);
			fputs(": ", s->out);
			room -= room > STATUS_CELLS + 2 ? STATUS_CELLS + 2 : 0;
		}
		fm_style_fit(s, cell.first_line, room, false);
		fputc('\n', s->out);
	}
}
