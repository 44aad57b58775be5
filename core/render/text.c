// The text report: what a person wants to know first stands first.
#include "render/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/libraries.h"
#include "render/calls.h"
#include "render/formats.h"
#include "render/label.h"

#define DEFAULT_TOP 10
#define MAX_THREAD_ROWS 20
// Threads and processes below this share of the time are counted, not listed: a shell script has dozens of them.
#define MIN_ROW_PERCENT 0.5

static const struct class_look {
	const char *name, *block, *letter;
	enum fm_paint paint;
} looks[FM_N_CLASSES] = {
	[FM_CLASS_PYTHON] = { "Python", "█", "P", FM_PAINT_BLUE },
	[FM_CLASS_NATIVE] = { "native", "▓", "n", FM_PAINT_YELLOW },
	[FM_CLASS_SYSTEM] = { "system", "▒", "s", FM_PAINT_RED },
	[FM_CLASS_GC] = { "garbage collection", "░", "g", FM_PAINT_MAGENTA },
	[FM_CLASS_GIL_WAIT] = { "waiting for the GIL", "·", ".", FM_PAINT_CYAN },
	[FM_CLASS_WAIT] = { "waiting", "·", ".", FM_PAINT_DIM },
};

static void put_mark(const struct fm_style *s, const struct class_look *look)
{
	fm_style_paint(s, look->paint);
	fputs(s->has_utf8 ? look->block : look->letter, s->out);
	fm_style_paint(s, FM_PAINT_NONE);
}

static void print_head(const struct fm_text *t)
{
	const struct fm_style *s = &t->style;
	const struct fm_facts *f = &t->facts;
	struct fm_buf command = { 0 };
	fm_label_command(&command, f->command);
	// Not cut to the width: people copy this line.
	fm_style_fit(s,
		     command.len ? (struct fm_str){ (const char *)command.data, (uint32_t)command.len }
				 : FM_STR_LIT("(unknown command)"),
		     UINT16_MAX, false);
	fm_buf_deinit(&command);
	fputc('\n', s->out);
	if (f->exit_signal)
		fprintf(s->out, "Ended by signal %d (%s) after %.3f seconds", f->exit_signal, strsignal(f->exit_signal),
			f->wall_s);
	else if (f->exit_code > 0)
		fprintf(s->out, "Ended with exit code %d after %.3f seconds", f->exit_code, f->wall_s);
	else if (f->exit_code == 0)
		fprintf(s->out, "Finished in %.3f seconds", f->wall_s);
	else
		fprintf(s->out, "Watched for %.3f seconds", f->wall_s);
	if (f->max_rss_bytes)
		fprintf(s->out, " using %.3f MB of RAM", (double)f->max_rss_bytes / 1e6);
	fputs(".\n", s->out);
}

// Cells per class: largest remainders, so that the bar is exactly full and a class that was seen has at least one cell.
static void share_cells(const struct fm_summary *sum, unsigned n_cells, unsigned cells[FM_N_CLASSES])
{
	double whole = 0, rest[FM_N_CLASSES];
	unsigned given = 0;
	for (unsigned c = 0; c < FM_N_CLASSES; c++)
		whole += fm_class_is_cpu(c) ? (double)sum->total.ns[c] : 0;
	for (unsigned c = 0; c < FM_N_CLASSES; c++) {
		double exact = fm_class_is_cpu(c) && whole > 0 ? (double)sum->total.ns[c] / whole * n_cells : 0;
		cells[c] = (unsigned)exact;
		rest[c] = exact - cells[c];
		if (exact > 0 && !cells[c])
			cells[c] = 1, rest[c] = 0;
		given += cells[c];
	}
	while (given != n_cells) {
		unsigned best = 0;
		for (unsigned c = 1; c < FM_N_CLASSES; c++)
			if (given < n_cells ? rest[c] > rest[best] : cells[c] > cells[best])
				best = c;
		cells[best] += given < n_cells ? 1 : -1u;
		rest[best] = 0;
		given += given < n_cells ? 1 : -1u;
	}
}

static void print_classes(const struct fm_text *t)
{
	const struct fm_style *s = &t->style;
	const struct fm_summary *sum = &t->summary;
	char count[32];
	fm_style_heading(s, "Where the time went");
	if (!t->facts.n_samples) {
		fm_style_wrap(
			s,
			FM_STR_LIT("No samples: the program used too little CPU time for this rate, or could not be "
				   "sampled (see below). A higher --rate sees shorter programs."),
			0, 0);
		return;
	}
	unsigned cells[FM_N_CLASSES], n_cells = FM_MIN(s->width - 2, 72);
	share_cells(sum, n_cells, cells);
	fputs("  ", s->out);
	for (unsigned c = 0; c < FM_N_CLASSES; c++)
		for (unsigned i = 0; i < cells[c]; i++)
			put_mark(s, &looks[c]);
	fputc('\n', s->out);
	for (unsigned c = 0; c < FM_N_CLASSES; c++) {
		if (!sum->total.ns[c])
			continue;
		double seconds = fm_seconds(sum->total.ns[c]);
		fputs("  ", s->out);
		put_mark(s, &looks[c]);
		fprintf(s->out, " %-19s %10.3f s", looks[c].name, seconds);
		if (fm_class_is_cpu(c))
			fprintf(s->out, "  %5.1f%% %s%.1f", 100 * seconds / t->cpu_s, s->has_utf8 ? "±" : "+-",
				100 * fm_plus_minus_s(seconds, sum->class_sq[c], t->cpu_s, sum->total.cpu_sq) /
					t->cpu_s);
		fputc('\n', s->out);
	}
	fprintf(s->out, "    %-19s %10.3f s  in %s samples", "CPU time sampled", t->cpu_s,
		fm_style_count(sum->total.n, count));
	if (t->facts.wall_s > 0)
		fprintf(s->out, ", %.0f%% of one core", 100 * t->facts.cpu_s / t->facts.wall_s);
	fputc('\n', s->out);
}

static void print_function(const struct fm_text *t, size_t rank, const struct fm_function_row *row,
			   const struct fm_weight *w)
{
	const struct fm_style *s = &t->style;
	const struct fm_function *f = fm_analysis_function(t->a, row->function_id);
	const unsigned place_cells = s->width < 90 ? 18 : 24,
		       fixed = 5 + 2 + 6 + 1 + (s->has_utf8 ? 5 : 6) + 1 + 11 + 2;
	double pm = t->cpu_s > 0 ? 100 * fm_summary_plus_minus_s(&t->summary, w) / t->cpu_s : 0;
	struct fm_buf place = { 0 };
	struct fm_str file = fm_label_file(t->a, row->function_id);
	if (file.len) {
		fm_buf_u8(&place, '(');
		fm_buf_bytes(&place, file.p, file.len);
		if (f->line)
			fm_buf_printf(&place, ":%u", f->line);
		fm_buf_u8(&place, ')');
	}
	char interval[32];
	snprintf(interval, sizeof(interval), "%.1f", pm);
	fprintf(s->out, "%3zu. ", rank);
	struct fm_buf name = { 0 };
	fm_buf_bytes(&name, f->name.p, f->name.len);
	if (row->is_always_inlined)
		fm_buf_str(&name, " (inlined)");
	fm_style_fit(s, (struct fm_str){ (const char *)name.data, (uint32_t)name.len }, s->width - fixed - place_cells,
		     true);
	fm_buf_deinit(&name);
	fprintf(s->out, "  %5.1f%% ", fm_text_percent(t, w));
	fm_style_paint(s, FM_PAINT_DIM);
	fprintf(s->out, "%s%-4s", s->has_utf8 ? "±" : "+-", interval);
	fm_style_paint(s, FM_PAINT_NONE);
	fprintf(s->out, " %9.3f s%s", fm_seconds(fm_weight_cpu_ns(w)), place.len ? "  " : "");
	struct fm_str text = { (const char *)place.data, (uint32_t)place.len };
	if (f->line)
		fm_style_fit_end(s, text, place_cells); // the line is at the end
	else
		fm_style_fit(s, text, place_cells, false);
	fputc('\n', s->out);
	fm_buf_deinit(&place);
}

static const struct fm_function_row *sort_rows;

static int compare_self(const void *pa, const void *pb)
{
	uint64_t a = fm_weight_cpu_ns(&sort_rows[*(const uint32_t *)pa].self),
		 b = fm_weight_cpu_ns(&sort_rows[*(const uint32_t *)pb].self);
	if (a != b)
		return (b > a) - (b < a);
	return (*(const uint32_t *)pa > *(const uint32_t *)pb) - (*(const uint32_t *)pa < *(const uint32_t *)pb);
}

static void print_functions(const struct fm_text *t)
{
	const struct fm_summary *sum = &t->summary;
	size_t n = sum->functions.n, top = FM_MIN(n, (size_t)(t->a->options.n_top ? t->a->options.n_top : DEFAULT_TOP));
	if (!top)
		return;
	fm_style_heading(&t->style, "Top %zu functions by total time (callees included)", top);
	for (size_t i = 0; i < top; i++)
		print_function(t, i + 1, &sum->functions.items[i], &sum->functions.items[i].total);

	uint32_t *order = fm_alloc(n * sizeof(*order));
	for (uint32_t i = 0; i < n; i++)
		order[i] = i;
	sort_rows = sum->functions.items;
	qsort(order, n, sizeof(*order), compare_self);
	size_t n_self = 0;
	while (n_self < top && fm_weight_cpu_ns(&sort_rows[order[n_self]].self))
		n_self++;
	if (n_self)
		fm_style_heading(&t->style, "Top %zu functions by own time", n_self);
	for (size_t i = 0; i < n_self; i++)
		print_function(t, i + 1, &sort_rows[order[i]], &sort_rows[order[i]].self);
	free(order);
}

static void print_threads(const struct fm_text *t)
{
	const struct fm_style *s = &t->style;
	const struct fm_profile *p = t->a->profile;
	size_t n = 0;
	char count[32];
	for (size_t i = 0; i < t->summary.threads.n; i++)
		n += t->summary.threads.items[i].n > 0;
	if (n < 2)
		return;
	fm_style_heading(s, "%zu threads with samples", n);
	fprintf(s->out, "%10s %10s  %11s  %6s %12s  %s\n", "pid", "tid", "CPU", "", "samples", "name");
	size_t shown = 1;
	while (shown < FM_MIN(n, (size_t)MAX_THREAD_ROWS) &&
	       fm_text_percent(t, &t->summary.threads.items[shown].weight) >= MIN_ROW_PERCENT)
		shown++;
	for (size_t i = 0; i < shown; i++) {
		const struct fm_thread_row *row = &t->summary.threads.items[i];
		const struct fm_thread *thread =
			row->thread_id < p->threads.n ? &p->threads.items[row->thread_id] : NULL;
		uint32_t process = fm_label_process_of(t->a, row->thread_id);
		fprintf(s->out, "%10u %10u  %9.3f s  %5.1f%% %12s%s",
			process != FM_NO_ID ? p->processes.items[process].info.pid : 0, thread ? thread->tid : 0,
			fm_seconds(fm_weight_cpu_ns(&row->weight)), fm_text_percent(t, &row->weight),
			fm_style_count(row->n, count), thread && thread->name.len ? "  " : "");
		fm_style_fit(s, thread ? thread->name : FM_STR_LIT(""), s->width - 59, false);
		fputc('\n', s->out);
	}
	if (n > shown)
		fprintf(s->out, "           and %zu more with less; --json lists them all\n", n - shown);
}

static int compare_processes(const void *pa, const void *pb)
{
	const struct fm_process_row *a = pa, *b = pb;
	uint64_t ta = fm_weight_cpu_ns(&a->weight), tb = fm_weight_cpu_ns(&b->weight);
	return ta != tb ? (tb > ta) - (tb < ta) : (a->process_id > b->process_id) - (a->process_id < b->process_id);
}

static void print_processes(struct fm_text *t)
{
	const struct fm_style *s = &t->style;
	const struct fm_profile *p = t->a->profile;
	if (p->processes.n < 2)
		return;
	fm_style_heading(s, "%zu processes", p->processes.n);
	fprintf(s->out, "%10s %10s  %11s  %6s  %-9s %s\n", "pid", "parent", "CPU", "", "exit", "command");
	struct fm_process_row *rows = t->summary.processes.items;
	qsort(rows, t->summary.processes.n, sizeof(*rows), compare_processes);
	size_t shown = 1;
	while (shown < FM_MIN(p->processes.n, (size_t)MAX_THREAD_ROWS) &&
	       fm_text_percent(t, &rows[shown].weight) >= MIN_ROW_PERCENT)
		shown++;
	for (size_t i = 0; i < shown; i++) {
		const struct fm_process *process = &p->processes.items[rows[i].process_id];
		const struct fm_weight *w = &rows[i].weight;
		char exit_text[24] = "?";
		if (process->exit_signal)
			snprintf(exit_text, sizeof(exit_text), "signal %d", process->exit_signal);
		else if (process->exit_code >= 0)
			snprintf(exit_text, sizeof(exit_text), "%d", process->exit_code);
		fprintf(s->out, "%10u %10u  %9.3f s  %5.1f%%  %-9s ", process->info.pid, process->info.parent_pid,
			fm_seconds(fm_weight_cpu_ns(w)), fm_text_percent(t, w), exit_text);
		struct fm_buf command = { 0 };
		fm_label_command(&command, process->info.command);
		fm_style_fit(s, (struct fm_str){ (const char *)command.data, (uint32_t)command.len }, s->width - 54,
			     false);
		fm_buf_deinit(&command);
		fputc('\n', s->out);
	}
	if (p->processes.n > shown)
		fprintf(s->out, "           and %zu more with less; --json lists them all\n", p->processes.n - shown);
}

struct gaps {
	const struct fm_text *t;
	unsigned n;
};

static void print_gap(void *ctx, struct fm_str what, struct fm_str why)
{
	struct gaps *gaps = ctx;
	const struct fm_style *s = &gaps->t->style;
	if (!gaps->n++)
		fm_style_heading(s, "Not seen, and why");
	struct fm_buf line = { 0 };
	fm_buf_bytes(&line, what.p, what.len);
	fm_buf_str(&line, ": ");
	fm_buf_bytes(&line, why.p, why.len);
	fputs("  - ", s->out);
	fm_style_wrap(s, (struct fm_str){ (const char *)line.data, (uint32_t)line.len }, 4, 4);
	fm_buf_deinit(&line);
}

// Only libraries that lack something.
static void print_libraries(const struct fm_text *t)
{
	const struct fm_style *s = &t->style;
	struct fm_libraries l;
	unsigned n = 0;
	fm_libraries_build(&l, &t->a->tally, &t->a->view, t->a->symbolizer);
	for (size_t i = 0; i < l.rows.n; i++) {
		const struct fm_library_row *row = &l.rows.items[i];
		if (!row->remedy.len)
			continue;
		if (!n++) {
			fm_style_heading(s, "Native code without names or lines");
			fprintf(s->out, "%8s %10s %8s   %s\n", "of time", "functions", "lines",
				"library, and what would help");
		}
		fprintf(s->out, "%7.1f%% %9.1f%% %7.1f%%   ", 100 * row->share, 100 * row->named_share,
			100 * row->lines_share);
		struct fm_str name = t->a->options.full_filenames ? row->path : fm_label_last_part(row->path);
		fm_style_fit_end(s, name.len ? name : FM_STR_LIT("(outside any library)"), s->width - 31);
		fprintf(s->out, "\n%*s", 31, "");
		fm_style_paint(s, FM_PAINT_DIM);
		fm_style_wrap(s, row->remedy, 31, 31);
		fm_style_paint(s, FM_PAINT_NONE);
	}
	fm_libraries_deinit(&l);
}

static void print_method(const struct fm_text *t)
{
	const struct fm_style *s = &t->style;
	const struct fm_facts *f = &t->facts;
	char count[32];
	struct fm_buf line = { 0 };
	fm_style_heading(s, "How it was measured");
	fm_buf_printf(&line, "%s samples", fm_style_count(f->n_samples, count));
	if (f->rate_hz)
		fm_buf_printf(&line, " at %" PRIu64 " per CPU second asked for", f->rate_hz);
	if (f->engine.len) {
		fm_buf_str(&line, ", engine ");
		fm_buf_bytes(&line, f->engine.p, f->engine.len);
	}
	if (f->python.len) {
		fm_buf_str(&line, ", Python ");
		fm_buf_bytes(&line, f->python.p, f->python.len);
	}
	fm_buf_printf(&line, "; %s dropped,", fm_style_count(f->n_dropped, count));
	fm_buf_printf(&line, " %s with an incomplete stack.", fm_style_count(t->summary.n_failed_unwinds, count));
	if (f->overhead_s > 0) {
		fm_buf_printf(&line, " Fathom's own work took %.3f s", f->overhead_s);
		if (f->cpu_s > 0)
			fm_buf_printf(&line, " (%.1f%% of the CPU time)", 100 * f->overhead_s / f->cpu_s);
		fm_buf_u8(&line, '.');
	}
	fm_buf_printf(&line, " %s is the 95%% interval, in points of percent.", s->has_utf8 ? "±" : "+-");
	fm_style_wrap(s, (struct fm_str){ (const char *)line.data, (uint32_t)line.len }, 0, 0);
	fm_buf_deinit(&line);
}

static void print_next(const struct fm_text *t)
{
	const struct fm_style *s = &t->style;
	struct fm_buf path = { 0 };
	fm_label_word(&path, fm_str_of(t->a->path));
	fm_style_heading(s, "Next");
	static const char *const commands[][2] = {
		{ "fathom export -f flamegraph -o flame.svg", "every stack in one picture, for the browser" },
		{ "fathom export -f speedscope -o speedscope.json", "for https://www.speedscope.app" },
		{ "fathom report --json", "all numbers, for scripts" },
	};
	for (size_t i = 0; i < FM_ARRAY_LEN(commands); i++) {
		fprintf(s->out, "  %s ", commands[i][0]);
		fm_style_fit(s, (struct fm_str){ (const char *)path.data, (uint32_t)path.len }, UINT16_MAX, false);
		fm_style_paint(s, FM_PAINT_DIM);
		fprintf(s->out, "   # %s", commands[i][1]);
		fm_style_paint(s, FM_PAINT_NONE);
		fputc('\n', s->out);
	}
	fm_buf_deinit(&path);
}

enum fm_err fm_write_text(FILE *out, struct fm_analysis *a, struct fm_diag *diag)
{
	struct fm_text t = { .a = a };
	fm_style_init(&t.style, out, &a->options);
	fm_summary_build(&t.summary, a->profile, &a->tally, &a->view, a->symbolizer, &a->options);
	fm_facts_gather(&t.facts, a);
	t.cpu_s = fm_seconds(fm_weight_cpu_ns(&t.summary.total));
	print_head(&t);
	print_classes(&t);
	print_functions(&t);
	fm_text_lines(&t);
	if (fm_profile_meta(a->profile, "trace_events", (struct fm_str){ "", 0 }).len) {
		fm_style_heading(&t.style, "Calls");
		enum fm_err err = fm_calls_write(out, a->path, &a->options, diag);
		if (err) {
			fm_summary_deinit(&t.summary);
			return err;
		}
	}
	print_threads(&t);
	print_processes(&t);
	struct gaps gaps = { &t, 0 };
	fm_facts_coverage(a, &t.summary, print_gap, &gaps);
	print_libraries(&t);
	print_method(&t);
	print_next(&t);
	fm_summary_deinit(&t.summary);
	return FM_OK;
}
