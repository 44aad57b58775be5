// SPDX-License-Identifier: Apache-2.0
// fathom report --focus --markdown: the same screen for whoever reads Markdown.
#include "aggregate/analysis/focus.h"
#include "render/shared/label.h"
#include "render/shared/markdown.h"
#include "render/shared/source_line.h"
#include "render/text/text.h"

#define MAX_BYTES 8192
#define MAX_PLACE 160
#define MAX_SOURCE 140

struct page {
	const struct fm_text *t;
	const struct fm_focus *f;
	struct fm_buf document, piece;
};

static struct fm_str str_of(const struct fm_buf *b)
{
	return (struct fm_str){ b->len ? (const char *)b->data : "", (uint32_t)b->len };
}

static void put_weight(struct page *p, const struct fm_weight *w)
{
	fm_buf_printf(&p->piece, "| %.1f%% ±%.1f | %.3f s | ", fm_text_percent(p->t, w), fm_text_plus_minus(p->t, w),
		      fm_seconds(fm_weight_cpu_ns(w)));
	if (fm_focus_waiting_s(&p->f->total) > 0)
		fm_buf_printf(&p->piece, "%.3f s | ", fm_focus_waiting_s(w));
}

static bool end_piece(struct page *p)
{
	return fm_markdown_add(&p->document, &p->piece, MAX_BYTES);
}

static void begin_table(struct page *p, const char *title)
{
	static const char *const titles[] = { "CPU time:", "seconds:", "waiting:", "" };
	const char *shown[FM_ARRAY_LEN(titles)];
	size_t n = 0;
	for (size_t i = 0; i < FM_ARRAY_LEN(titles); i++)
		if (i != 2 || fm_focus_waiting_s(&p->f->total) > 0)
			shown[n++] = titles[i];
	fm_buf_printf(&p->piece, "\n**%s**\n\n", title);
	fm_markdown_titles(&p->piece, shown, n);
	end_piece(p);
}

static void end_table(struct page *p, size_t n_left_out, size_t n)
{
	if (n_left_out)
		fm_buf_printf(&p->piece, "\n%zu more; `--top %zu` lists them.\n", n_left_out, n);
	end_piece(p);
}

static void put_rows(struct page *p, const char *title, const struct fm_focus_row *rows, size_t n)
{
	size_t n_shown = fm_focus_shown(&p->t->a->options, n, FM_FOCUS_CALLS);
	if (!n)
		return;
	begin_table(p, title);
	for (size_t i = 0; i < n_shown; i++) {
		struct fm_buf name = { 0 };
		fm_text_focus_name(&name, p->t, rows[i].function_id, rows[i].line);
		put_weight(p, &rows[i].weight);
		fm_markdown_cell(&p->piece, str_of(&name), MAX_PLACE);
		fm_buf_str(&p->piece, " |\n");
		fm_buf_deinit(&name);
		if (!end_piece(p))
			n_shown = i;
	}
	end_table(p, n - n_shown, n);
}

static void put_lines(struct page *p)
{
	const struct fm_focus *f = p->f;
	struct fm_str file = fm_focus_file(p->t->a, &f->place);
	size_t n_shown = fm_focus_shown(&p->t->a->options, f->lines.n, FM_FOCUS_LINES);
	if (!f->lines.n || f->place.function_id == FM_NO_ID)
		return;
	begin_table(p, "Lines, with what they call");
	for (size_t i = 0; i < n_shown; i++) {
		const struct fm_focus_line *row = &f->lines.items[i];
		char bytes[32];
		put_weight(p, &row->weight);
		if (row->line)
			fm_buf_printf(&p->piece, "%u, own %.1f%%", row->line,
				      row->own ? fm_text_percent(p->t, &row->own->weight) : 0.0);
		else
			fm_buf_str(&p->piece, "unknown line");
		if (row->memory && fm_text_sure_peak(&row->memory->f) >= 1000000)
			fm_buf_printf(&p->piece, ", %s", fm_style_bytes(row->memory->f.peak_bytes, bytes));
		fm_buf_u8(&p->piece, ' ');
		fm_markdown_cell(&p->piece, fm_source_line_text(p->t->a->profile, file, row->line), MAX_SOURCE);
		fm_buf_str(&p->piece, " |\n");
		if (!end_piece(p))
			n_shown = i;
	}
	end_table(p, f->lines.n - n_shown, f->lines.n);
}

static void put_threads(struct page *p)
{
	const struct fm_focus *f = p->f;
	size_t n_shown = fm_focus_shown(&p->t->a->options, f->threads.n, FM_FOCUS_THREADS);
	if (f->threads.n < 2)
		return;
	begin_table(p, "Threads");
	for (size_t i = 0; i < n_shown; i++) {
		struct fm_buf name = { 0 };
		fm_label_thread(&name, p->t->a, f->threads.items[i].thread_id);
		put_weight(p, &f->threads.items[i].weight);
		fm_markdown_cell(&p->piece, str_of(&name), MAX_PLACE);
		fm_buf_str(&p->piece, " |\n");
		fm_buf_deinit(&name);
		if (!end_piece(p))
			n_shown = i;
	}
	end_table(p, f->threads.n - n_shown, f->threads.n);
}

static void put_memory(struct page *p)
{
	const struct fm_heap_figures *m = p->f->memory;
	char text[32], text2[32];
	if (m && (m->peak_bytes || m->alloc_bytes))
		fm_buf_printf(&p->piece, "\nMemory: %s at its own peak, %s allocated in all.\n",
			      fm_style_bytes(m->peak_bytes, text), fm_style_bytes(m->alloc_bytes, text2));
	for (size_t i = 0; i < FM_MIN(p->f->leaks.n, (size_t)FM_FOCUS_LEAKS); i++) {
		const struct fm_heap_leak_row *leak = p->f->leaks.items[i];
		fm_buf_printf(
			&p->piece,
			"\nPossible leak: line %u grows by %s a second, at least %s by the end, likelihood %.0f%%.\n",
			leak->line, fm_style_bytes((uint64_t)(leak->velocity_bytes_s + 0.5), text),
			fm_style_bytes(leak->bytes, text2), 100 * leak->likelihood);
	}
	end_piece(p);
}

static void put_head(struct page *p)
{
	const struct fm_focus *f = p->f;
	struct fm_str name = fm_focus_name(p->t->a, &f->place), file = fm_focus_file(p->t->a, &f->place);
	uint32_t line = fm_focus_line(p->t->a, &f->place);
	struct fm_buf place = { 0 };
	fm_buf_bytes(&place, file.p, file.len);
	if (line)
		fm_buf_printf(&place, ":%u", line);
	fm_buf_str(&p->piece, "### ");
	fm_markdown_code(&p->piece, name.len ? name : str_of(&place), MAX_PLACE);
	fm_buf_str(&p->piece, "\n\n");
	if (name.len)
		fm_markdown_code(&p->piece, str_of(&place), 2 * MAX_PLACE);
	struct fm_str text = fm_source_line_text(p->t->a->profile, file, line);
	if (text.len) {
		fm_buf_str(&p->piece, name.len ? ": " : "");
		fm_markdown_code(&p->piece, text, MAX_SOURCE);
	}
	fm_buf_str(&p->piece, "\n");
	end_piece(p);
	fm_buf_deinit(&place);
}

static void put_totals(struct page *p)
{
	const struct fm_focus *f = p->f;
	const struct {
		const char *what;
		const struct fm_weight *weight;
		bool is_shown;
	} rows[] = {
		{ "in all", &f->total, true },
		{ "own lines, with the libraries that they call", &f->own, fm_weight_cpu_ns(&f->own) > 0 },
		{ "by itself", &f->self, true },
	};
	char title[64];
	snprintf(title, sizeof(title), "Of %.3f s of CPU time", p->t->cpu_s);
	begin_table(p, title);
	for (size_t i = 0; i < FM_ARRAY_LEN(rows); i++) {
		if (!rows[i].is_shown)
			continue;
		put_weight(p, rows[i].weight);
		fm_buf_printf(&p->piece, "%s |\n", rows[i].what);
		end_piece(p);
	}
}

// Of a trace the figures that a sentence holds; the text has the histogram.
static void put_traced(struct page *p)
{
	const struct fm_traced_function *f = &p->t->a->calls->functions.items[p->f->place.traced];
	fm_buf_printf(
		&p->piece,
		"\nEvery call was traced: %llu calls, %.6f s in all, %.6f s by itself; a call takes %.9f s on average, "
		"%.9f s at most.\n",
		(unsigned long long)f->n_calls, (double)f->total_ns * 1e-9, (double)f->own_ns * 1e-9,
		(double)fm_durations_mean_ns(&f->spans) * 1e-9, (double)f->spans.max_ns * 1e-9);
	end_piece(p);
}

void fm_text_focus_markdown(const struct fm_text *t, const struct fm_focus *f)
{
	struct page p = { .t = t, .f = f };
	put_head(&p);
	put_totals(&p);
	put_memory(&p);
	if (f->place.traced != FM_NO_ID)
		put_traced(&p);
	put_lines(&p);
	put_rows(&p, "Called by, and where", f->callers.items, f->callers.n);
	put_rows(&p, "Calls", f->callees.items, f->callees.n);
	put_threads(&p);
	fwrite(p.document.data, 1, p.document.len, t->style.out);
	fm_buf_deinit(&p.document);
}
