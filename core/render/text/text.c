// SPDX-License-Identifier: Apache-2.0
// The text report. Its order answers a reader's questions as they come: how did it end, where did
// the time and the memory go, how sure is that, what was not seen, what next; then the lines.
#include "render/text/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "render/shared/nb_cells.h"
#include "render/shared/formats.h"
#include "render/shared/label.h"
#include "render/shared/page.h"

// Below this much CPU time, or this many samples, a profile says little.
#define SHORT_CPU_S 0.05
#define FEW_SAMPLES 100
// Time without a CPU that makes a reader ask where it went.
#define MUCH_NO_CPU 0.1 // of the run

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

void fm_text_heading(const struct fm_text *t, const char *note, const char *fmt, ...)
{
	const struct fm_style *s = &t->style;
	char text[128];
	va_list args;
	va_start(args, fmt);
	int n = vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	fputc('\n', s->out);
	fm_style_paint(s, FM_PAINT_BOLD);
	fputs(text, s->out);
	fm_style_paint(s, FM_PAINT_NONE);
	if (*note && (unsigned)n + 1 + strlen(note) <= FM_MAX(t->rule, s->width)) {
		fm_style_paint(s, FM_PAINT_DIM);
		fprintf(s->out, " %s", note);
		fm_style_paint(s, FM_PAINT_NONE);
	}
	fputc('\n', s->out);
	fm_style_repeat(s, "-", t->rule);
	fputc('\n', s->out);
}

bool fm_text_shows(const struct fm_text *t, uint32_t function_id)
{
	return t->is_all_code || fm_summary_is_users(t->summary, function_id);
}

const struct fm_weight *fm_text_share(const struct fm_text *t, const struct fm_function_row *row)
{
	return t->is_all_code ? &row->self : &row->paid;
}

const struct fm_heap_function_row *fm_text_heap_row(const struct fm_text *t, uint32_t function_id)
{
	for (size_t i = 0; i < t->heap->functions.n; i++)
		if (t->heap->functions.items[i].function_id == function_id)
			return &t->heap->functions.items[i];
	return NULL;
}

static void wrap(const struct fm_text *t, struct fm_buf *sentence, unsigned indent)
{
	fm_style_repeat(&t->style, " ", indent);
	fm_style_wrap(&t->style, (struct fm_str){ (const char *)sentence->data, (uint32_t)sentence->len }, indent,
		      indent);
	fm_buf_deinit(sentence);
}

static void print_runs(const struct fm_text *t, const struct fm_facts_runs *r)
{
	struct fm_buf b = { 0 };
	fm_buf_printf(&b,
		      "Sum of %llu runs. One run took %.3f seconds (%s%.3f; runs differ by %.3f) and %.3f s of CPU "
		      "time (%s%.3f; runs differ by %.3f), using %.3f MB of RAM (runs differ by %.3f).",
		      (unsigned long long)r->n, r->wall_s.mean, fm_text_sign(t), r->wall_s.plus_minus, r->wall_s.spread,
		      r->cpu_s.mean, fm_text_sign(t), r->cpu_s.plus_minus, r->cpu_s.spread, r->max_rss_bytes.mean / 1e6,
		      r->max_rss_bytes.spread / 1e6);
	wrap(t, &b, 0);
}

void fm_text_ending(const struct fm_text *t)
{
	const struct fm_facts *f = &t->facts;
	struct fm_facts_runs runs;
	fm_facts_runs(&runs, t->a->profile);
	if (runs.n) {
		print_runs(t, &runs);
		return;
	}
	struct fm_buf b = { 0 };
	if (f->exit_signal == 2)
		fm_buf_printf(&b, "Interrupted after %.3f seconds", f->wall_s);
	else if (f->exit_signal)
		fm_buf_printf(&b, "Ended by signal %d (%s) after %.3f seconds", f->exit_signal,
			      strsignal(f->exit_signal), f->wall_s);
	else if (f->exit_code > 0)
		fm_buf_printf(&b, "Ended with exit code %d after %.3f seconds", f->exit_code, f->wall_s);
	else if (f->exit_code == 0)
		fm_buf_printf(&b, "Finished in %.3f seconds", f->wall_s);
	else
		fm_buf_printf(&b, "Watched for %.3f seconds", f->wall_s);
	unsigned long long wall_s = (unsigned long long)f->wall_s; // a damaged file may tell of centuries
	if (wall_s >= 120)
		fm_buf_printf(&b, " (%llu:%02llu:%02llu)", wall_s / 3600, wall_s / 60 % 60, wall_s % 60);
	if (f->max_rss_bytes)
		fm_buf_printf(&b, " using %.3f MB of RAM", (double)f->max_rss_bytes / 1e6);
	unsigned n_processes = fm_facts_n_processes(t->a->profile);
	if (f->max_rss_bytes && n_processes > 1)
		fm_buf_printf(&b, " in the first of %u processes", n_processes);
	fm_buf_u8(&b, '.');
	wrap(t, &b, 0);
}

void fm_text_logs(const struct fm_text *t)
{
	static const char *const levels[] = { "critical", "error", "warning", "info", "debug" };
	struct fm_str path = fm_profile_meta(t->a->profile, "logs_path", FM_STR_LIT(""));
	struct fm_buf counts = { 0 };
	for (size_t i = 0; i < FM_ARRAY_LEN(levels); i++) {
		char key[32];
		snprintf(key, sizeof(key), "logs_count_%s", levels[i]);
		uint64_t n = fm_facts_meta_u64(t->a->profile, key);
		if (n)
			fm_buf_printf(&counts, "%s%" PRIu64 " %s%s", counts.len ? ", " : "", n, levels[i],
				      n > 1 && (i == 1 || i == 2) ? "s" : "");
	}
	if (path.len && counts.len) {
		fputs("Check logs ", t->style.out);
		fm_style_fit(&t->style, path, UINT16_MAX, false); // to be copied
		fprintf(t->style.out, " (%s)\n", (const char *)counts.data);
	}
	fm_buf_deinit(&counts);
}

// Looked at from outside while it ran: what helps then is another look, not another run.
bool fm_text_is_attached(const struct fm_text *t)
{
	return fm_str_eq(fm_profile_meta(t->a->profile, "mode", FM_STR_LIT("")), FM_STR_LIT("attached"));
}

static bool is_imported(const struct fm_text *t)
{
	return fm_str_eq(fm_profile_meta(t->a->profile, "mode", FM_STR_LIT("")), FM_STR_LIT("imported"));
}

// One or two sentences when there is little to go by, instead of tables that look surer than they
// are.
void fm_text_too_little(const struct fm_text *t)
{
	const struct fm_facts *f = &t->facts;
	struct fm_buf b = { 0 };
	char count[32];
	if (is_imported(t) && f->n_samples - f->n_waits && f->n_samples - f->n_waits < FEW_SAMPLES)
		fm_buf_printf(
			&b, "Only %s samples of %.3f seconds of CPU time are in the file: the shares below are rough.",
			fm_style_count(f->n_samples - f->n_waits, count), f->cpu_s);
	else if (is_imported(t))
		return;
	else if (f->cpu_s < SHORT_CPU_S && t->a->profile->is_truncated)
		fm_buf_printf(&b,
			      "The profile was cut off after %.0f ms of CPU time, too little to show where the time "
			      "went: the disk was full, or Fathom was killed.",
			      1e3 * f->cpu_s);
	else if (f->cpu_s < SHORT_CPU_S && fm_text_is_attached(t))
		fm_buf_printf(&b,
			      "The program used %.0f ms of CPU time while it was watched, too little to show where the "
			      "time went%s. Use a longer --duration; 'fathom dump' shows where it waits.",
			      1e3 * f->cpu_s, f->wall_s > 10 * SHORT_CPU_S ? ": it waited nearly all the time" : "");
	else if (f->cpu_s < SHORT_CPU_S)
		fm_buf_printf(&b,
			      "The program used %.0f ms of CPU time, too little to show where the time went%s. 'fathom "
			      "run --repeat 20' averages over many runs, --rate 2k samples more often, and 'python -m "
			      "fathom' records every call.",
			      1e3 * f->cpu_s, f->wall_s > 10 * SHORT_CPU_S ? ": it waited nearly all the time" : "");
	else if (f->n_samples - f->n_waits < FEW_SAMPLES)
		fm_buf_printf(&b,
			      "Only %s samples were taken of %.3f seconds of CPU time: the shares below are rough. A "
			      "higher --rate, or %s, makes them more precise.",
			      fm_style_count(f->n_samples - f->n_waits, count), f->cpu_s,
			      fm_text_is_attached(t) ? "a longer --duration" : "--repeat");
	if (!b.len)
		return;
	fputc('\n', t->style.out);
	wrap(t, &b, 0);
}

// Cells per class: largest remainders, so that the bar is exactly full and a class that was seen
// has at least one cell.
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

static void put_mark(const struct fm_style *s, const struct class_look *look)
{
	fm_style_paint(s, look->paint);
	fputs(s->has_utf8 ? look->block : look->letter, s->out);
	fm_style_paint(s, FM_PAINT_NONE);
}

// Threads that libraries keep for later wait all the time: whose waiting it is matters more than
// how much.
static void put_whose_waiting(const struct fm_text *t, unsigned class)
{
	uint64_t own_ns = 0, all_ns = t->summary->total.ns[class];
	if (t->is_all_code || t->style.width < 76)
		return;
	for (size_t i = 0; i < t->summary->functions.n; i++)
		if (fm_text_shows(t, t->summary->functions.items[i].function_id))
			own_ns += t->summary->functions.items[i].paid.ns[class];
	if (!own_ns)
		fputs(", none of it in your code", t->style.out);
	else if (own_ns * 100 < all_ns)
		fputs(", almost none of it in your code", t->style.out);
	else if (own_ns < all_ns / 100 * 99)
		fprintf(t->style.out, ", %.3f s of it in your code", fm_seconds(own_ns));
}

static void print_classes(const struct fm_text *t)
{
	const struct fm_style *s = &t->style;
	const struct fm_summary *sum = t->summary;
	fm_text_heading(t, "", "Time by Kind:");
	unsigned cells[FM_N_CLASSES], n_cells = FM_MIN(t->rule, 72);
	if (t->cpu_s > 0) {
		share_cells(sum, n_cells, cells);
		for (unsigned c = 0; c < FM_N_CLASSES; c++)
			for (unsigned i = 0; i < cells[c]; i++)
				put_mark(s, &looks[c]);
		fputc('\n', s->out);
	}
	for (unsigned c = 0; c < FM_N_CLASSES; c++) {
		if (!sum->total.ns[c])
			continue;
		double seconds = fm_seconds(sum->total.ns[c]);
		fputs("  ", s->out);
		put_mark(s, &looks[c]);
		fprintf(s->out, " %-19s", looks[c].name);
		if (fm_class_is_cpu(c) && t->cpu_s > 0)
			fprintf(s->out, " %5.1f%% %s%-4.1f %9.3f s", 100 * seconds / t->cpu_s, fm_text_sign(t),
				100 *
					fm_plus_minus_s(seconds, sum->class_sq[c], seconds / t->cpu_s, t->cpu_s,
							sum->total.cpu_sq, sum->heavy_sq, sum->misplaced_s) /
					t->cpu_s,
				seconds);
		else
			fprintf(s->out, "              %s%9.3f s", s->has_utf8 ? "" : " ", seconds);
		if (!fm_class_is_cpu(c))
			put_whose_waiting(t, c);
		fputc('\n', s->out);
	}
	fprintf(s->out, "    %-19s             %s %9.3f s", "CPU time sampled", s->has_utf8 ? "" : " ", t->cpu_s);
	if (t->facts.wall_s > 0 && s->width >= 70)
		fprintf(s->out, ", %.0f%% of one core", 100 * t->facts.cpu_s / t->facts.wall_s);
	fputc('\n', s->out);
	double no_cpu_s = t->facts.no_cpu_s;
	if (no_cpu_s >= MUCH_NO_CPU * t->facts.wall_s && no_cpu_s >= SHORT_CPU_S)
		fprintf(s->out, "    %-19s             %s %9.3f s%s\n", "no CPU was free", s->has_utf8 ? "" : " ",
			no_cpu_s, s->width >= 76 ? " of the main thread" : "");
}

// What looking took: inside a program that was started under us, or of the time of one that we came
// to.
static void put_cost(const struct fm_text *t, struct fm_buf *line)
{
	const struct fm_facts *f = &t->facts;
	if (fm_text_is_attached(t)) {
		fm_buf_str(line, " Fathom observed the program from outside.");
		fm_buf_printf(line, " Running threads were stopped for %.3f s in all while Fathom read their stacks",
			      f->overhead_s);
		if (f->wall_s > 0)
			fm_buf_printf(line, ", %.1f%% of the wall time", 100 * f->overhead_s / f->wall_s);
		fm_buf_str(line, "; this counts neither as CPU time nor as waiting.");
		return;
	}
	fm_buf_printf(line, " Fathom's own work inside the program took %.3f s", f->overhead_s);
	if (f->cpu_s > 0)
		fm_buf_printf(line, ", %.1f%% of its CPU time", 100 * f->overhead_s / f->cpu_s);
	fm_buf_str(line, ", which the figures above include, spread like the samples.");
}

// How the agent came into a program that ran already.
static void put_way(const struct fm_text *t, struct fm_buf *line)
{
	struct fm_str way = fm_profile_meta(t->a->profile, "injected", FM_STR_LIT(""));
	if (fm_str_eq(way, FM_STR_LIT("pending call")))
		fm_buf_str(line,
			   " The agent was loaded into the running program by a pending call of its interpreter.");
	else if (way.len)
		fm_buf_str(line, " The agent was loaded into the running program through its interpreter's remote "
				 "execution (PEP 768).");
}

static void print_method(const struct fm_text *t)
{
	const struct fm_facts *f = &t->facts;
	char count[32];
	struct fm_buf line = { 0 };
	fm_text_heading(t, "", "How Sure, and at What Cost:");
	fm_buf_printf(&line, "%s samples", fm_style_count(f->n_samples - f->n_waits, count));
	if (f->python.len) {
		fm_buf_str(&line, " of Python ");
		fm_buf_bytes(&line, f->python.p, f->python.len);
	}
	if (f->rate_hz)
		fm_buf_printf(&line, ", %s requested per second%s", fm_style_count(f->rate_hz, count),
			      fm_text_is_attached(t) ? "" : " of CPU time");
	if (f->engine.len)
		fm_buf_printf(&line, " (engine %.*s)", (int)f->engine.len, f->engine.p);
	if (f->n_waits)
		fm_buf_printf(&line, ", and %s sample%s of waiting threads", fm_style_count(f->n_waits, count),
			      f->n_waits == 1 ? "" : "s");
	fm_buf_printf(&line, "; %s dropped,", fm_style_count(f->n_dropped, count));
	fm_buf_printf(&line, " %s with an incomplete stack.", fm_style_count(t->summary->n_failed_unwinds, count));
	if (t->summary->functions.n && t->cpu_s > 0)
		fm_buf_printf(&line,
			      " %s is the 95%% interval in percentage points: the true share is within it 19 times out "
			      "of 20.",
			      fm_text_sign(t));
	put_way(t, &line);
	if (f->overhead_s > 0) {
		put_cost(t, &line);
		bool is_traced = fm_facts_meta_u64(t->a->profile, "trace_events") > 0;
		if (t->heap->is_exact || is_traced)
			fm_buf_printf(&line, " This does not include the time to %s%s%s, which is not measured.",
				      t->heap->is_exact ? "count every allocation" : "",
				      t->heap->is_exact && is_traced ? " and to " : "",
				      is_traced ? "record every call" : "");
	}
	wrap(t, &line, 0);
}

static void print_next(const struct fm_text *t)
{
	fm_text_heading(t, "", "Next:");
	static const struct fm_text_next nexts[] = {
		{ "fathom report --tree", "the call tree of your code", true, false },
		{ "fathom view", "flame graph, timeline and source in the browser", true, true },
		{ "fathom report --json", "all numbers, for scripts", true, false },
		{ "fathom report --explain", "what each number means", false, false },
	};
	fm_text_nexts(t, nexts, FM_ARRAY_LEN(nexts));
}

struct fm_str fm_text_path(const struct fm_text *t)
{
	static const char file[] = "/profile.fathom";
	struct fm_str name = fm_str_of(t->a->path);
	if (name.len > sizeof(file) && !memcmp(name.p + name.len - (sizeof(file) - 1), file, sizeof(file) - 1))
		name.len -= sizeof(file) - 1;
	return name;
}

void fm_text_nexts(const struct fm_text *t, const struct fm_text_next *nexts, size_t n)
{
	const struct fm_style *s = &t->style;
	struct fm_buf path = { 0 };
	fm_label_word(&path, fm_text_path(t));
	struct fm_str word = { (const char *)path.data, (uint32_t)path.len };
	for (size_t i = 0; i < n; i++) {
		const struct fm_text_next *next = &nexts[i];
		if (next->has_page && !fm_page_len)
			continue;
		fprintf(s->out, "  %s", next->command);
		unsigned at = 2 + (unsigned)strlen(next->command);
		if (next->has_path) {
			fputc(' ', s->out);
			fm_style_fit(s, word, UINT16_MAX, false); // commands are there to be copied
			at += 1 + fm_style_cells(word);
		}
		bool has_room = at + 4 + strlen(next->why) <= s->width;
		if (has_room || t->a->options.form == FM_TEXT_WHOLE) {
			fputs(has_room ? "  " : "\n      ", s->out);
			fm_style_paint(s, FM_PAINT_DIM);
			fprintf(s->out, "# %s", next->why);
			fm_style_paint(s, FM_PAINT_NONE);
		}
		fputc('\n', s->out);
	}
	fm_buf_deinit(&path);
}

void fm_text_no_samples(const struct fm_text *t)
{
	struct fm_buf b = { 0 };
	fm_buf_str(&b, is_imported(t) ? "The file has no samples of time, so there is nothing to report."
				      : "There are no samples: the program used too little CPU time for this rate, or "
					"could not be sampled (see below). Use a higher --rate for short programs.");
	fputc('\n', t->style.out);
	wrap(t, &b, 0);
}

static void print_memory_line(const struct fm_text *t)
{
	const struct fm_heap *h = t->heap;
	if (!h->timeline.n || !h->peak_bytes) // of a heap that nobody watched nothing is known
		return;
	uint64_t *values = fm_alloc(h->timeline.n * sizeof(*values));
	for (size_t i = 0; i < h->timeline.n; i++)
		values[i] = h->timeline.items[i].heap_high_bytes;
	struct fm_buf line = { 0 };
	fm_style_sparkline(&t->style, &line, values, h->timeline.n,
			   t->table_width >= 100  ? 32
			   : t->table_width >= 72 ? 12
						  : 8);
	fprintf(t->style.out, "%sMemory usage: %s (max: %.3f MB, growth rate: %.0f%%)\n",
		t->table_width >= 72 ? "        " : "", (const char *)line.data, (double)h->peak_bytes / 1e6,
		100 * h->growth_rate);
	fm_buf_deinit(&line);
	free(values);
}

static bool has_user_code(const struct fm_text *t)
{
	for (size_t i = 0; i < t->summary->functions.n; i++)
		if (fm_text_shows(t, t->summary->functions.items[i].function_id))
			return true;
	return false;
}

static void print_calls(const struct fm_text *t)
{
	if (!fm_analysis_has_calls(t->a))
		return;
	fm_text_heading(t, t->a->profile->call_sums.n ? "(sums of all)" : "(every one was traced)", "Calls:");
	fm_calls_print(t->style.out, t->a->calls, &t->a->options);
}

void fm_text_verdict(const struct fm_text *t)
{
	if (!t->verdict.n)
		return;
	fputc('\n', t->style.out);
	for (unsigned i = 0; i < t->verdict.n; i++) {
		const struct fm_buf *text = &t->verdict.lines[i].text;
		struct fm_buf line = { 0 };
		fm_buf_bytes(&line, text->data, text->len);
		fputs(t->style.has_utf8 ? "▸ " : "> ", t->style.out);
		fm_style_wrap(&t->style, (struct fm_str){ (const char *)line.data, (uint32_t)line.len }, 2, 2);
		fm_buf_deinit(&line);
	}
}

static void write_whole(struct fm_text *t)
{
	FILE *out = t->style.out;
	fm_text_ending(t);
	fm_text_logs(t);
	fm_text_too_little(t);
	fm_text_verdict(t);
	fputs("\n\n", out);
	fm_style_paint(&t->style, FM_PAINT_BOLD);
	fputs("Profile Summary\n", out);
	fm_style_paint(&t->style, FM_PAINT_NONE);
	fm_text_functions(t);
	fm_text_tree(t);
	if (t->facts.n_samples) {
		fm_text_own_time(t);
		fm_text_waiting(t);
		print_classes(t);
	} else {
		fm_text_no_samples(t);
	}
	fm_text_memory(t);
	fm_text_cells(t);
	print_calls(t);
	fm_text_threads(t);
	fm_text_processes(t);
	print_method(t);
	fm_text_not_seen(t);
	print_next(t);
	fputc('\n', out);
	fm_style_repeat(&t->style, "=", t->rule);
	fputs("\n\n", out);
	print_memory_line(t);
	fm_text_lines(t);
	fm_text_libraries(t);
}

void fm_text_init(struct fm_text *t, FILE *out, struct fm_analysis *a)
{
	*t = (struct fm_text){ .a = a, .heap = &a->heap };
	fm_style_init(&t->style, out, &a->options);
	t->table_width = t->style.width;
	t->style.width = t->rule = FM_MIN(t->style.width, (unsigned)FM_TEXT_MAX_WIDTH);
	t->summary = fm_analysis_summary(a);
	fm_own_tree_build(&t->own_tree, &a->tally, &a->view, a->symbolizer, t->summary);
	fm_facts_gather(&t->facts, a);
	fm_verdict_find(&t->verdict, a, &t->facts, t->summary, &t->own_tree);
	t->cpu_s = fm_seconds(fm_weight_cpu_ns(&t->summary->total));
	t->is_short = t->facts.cpu_s < SHORT_CPU_S && a->options.form == FM_TEXT_SCREEN && !a->options.detailed;
	t->is_all_code = a->options.detailed || !has_user_code(t);
}

void fm_text_deinit(struct fm_text *t)
{
	fm_verdict_deinit(&t->verdict);
	fm_own_tree_deinit(&t->own_tree);
}

enum fm_err fm_write_text(FILE *out, struct fm_analysis *a, struct fm_diag *diag)
{
	(void)diag;
	struct fm_text t;
	fm_text_init(&t, out, a);
	if (a->options.first_line) {
		fm_style_fit(&t.style, fm_str_of(a->options.first_line), UINT16_MAX, false);
		fputc('\n', out);
	}
	if (a->options.form == FM_TEXT_TREE)
		fm_text_call_tree(&t);
	else if (a->options.form == FM_TEXT_SCREEN)
		fm_text_screen(&t);
	else
		write_whole(&t);
	fm_text_deinit(&t);
	return FM_OK;
}
