// SPDX-License-Identifier: Apache-2.0
// fathom report --focus: one function or line on one screen.
#include "aggregate/analysis/focus.h"

#include <stdlib.h>
#include <string.h>

#include "render/shared/formats.h"
#include "render/shared/label.h"
#include "render/shared/source_line.h"
#include "render/text/text.h"

#define PLACE_COLUMN 12
#define MIN_NAME_CELLS 20

struct page {
	const struct fm_text *t;
	const struct fm_focus *f;
	bool has_waiting;
};

static void put_place(struct fm_buf *b, const struct fm_text *t, struct fm_str file, uint32_t line)
{
	struct fm_str name = t->a->options.full_filenames ? file : fm_label_last_part(file);
	fm_buf_bytes(b, name.p, name.len);
	if (line)
		fm_buf_printf(b, "%s%u", file.len ? ":" : "line ", line);
}

void fm_text_focus_name(struct fm_buf *b, const struct fm_text *t, uint32_t function_id, uint32_t line)
{
	if (function_id == FM_NO_ID) {
		fm_buf_str(b, "(a thread begins there)");
		return;
	}
	const struct fm_function *f = fm_analysis_function(t->a, function_id);
	struct fm_str name = fm_label_function(f), file = f->file.len ? f->file : f->path;
	fm_buf_bytes(b, name.p, name.len);
	if (!file.len)
		return;
	fm_buf_str(b, " (");
	put_place(b, t, file, line ? line : f->line);
	fm_buf_u8(b, ')');
}

static void put_weight(const struct page *p, const struct fm_weight *w)
{
	const struct fm_style *s = &p->t->style;
	char interval[16];
	snprintf(interval, sizeof(interval), "%.1f", fm_text_plus_minus(p->t, w));
	fprintf(s->out, "  %5.1f%% ", fm_text_percent(p->t, w));
	fm_style_paint(s, FM_PAINT_DIM);
	fprintf(s->out, "%s%-4s", fm_text_sign(p->t), interval);
	fm_style_paint(s, FM_PAINT_NONE);
	fprintf(s->out, "%9.3f s", fm_seconds(fm_weight_cpu_ns(w)));
	if (p->has_waiting)
		fprintf(s->out, " %9.3f s", fm_focus_waiting_s(w));
}

static void put_name(const struct page *p, struct fm_buf *name)
{
	const struct fm_style *s = &p->t->style;
	unsigned at = 2 + 7 + (s->has_utf8 ? 5 : 6) + 11 + (p->has_waiting ? 12 : 0) + 2;
	fputs("  ", s->out);
	fm_style_fit(s, (struct fm_str){ (const char *)name->data, (uint32_t)name->len },
		     FM_MAX(s->width > at ? s->width - at : 0, (unsigned)MIN_NAME_CELLS), false);
	fputc('\n', s->out);
	fm_buf_deinit(name);
}

static void title(const struct page *p, const char *text, const char *note)
{
	const struct fm_style *s = &p->t->style;
	fputc('\n', s->out);
	fm_style_paint(s, FM_PAINT_BOLD);
	fputs(text, s->out);
	fm_style_paint(s, FM_PAINT_NONE);
	if (*note)
		fprintf(s->out, " %s", note);
	fputc('\n', s->out);
}

static void put_rest(const struct page *p, const struct fm_focus_rest *rest)
{
	struct fm_buf text = { 0 };
	if (!rest->n)
		return;
	fm_buf_printf(&text, "%zu more (--top %zu lists them)", rest->n, rest->n + rest->n_shown);
	put_weight(p, &rest->weight);
	put_name(p, &text);
}

static void print_rows(const struct page *p, const char *text, const char *note, const struct fm_focus_row *rows,
		       size_t n)
{
	size_t n_shown = fm_focus_shown(&p->t->a->options, n, FM_FOCUS_CALLS);
	if (!n)
		return;
	title(p, text, note);
	for (size_t i = 0; i < n_shown; i++) {
		struct fm_buf name = { 0 };
		fm_text_focus_name(&name, p->t, rows[i].function_id, rows[i].line);
		put_weight(p, &rows[i].weight);
		put_name(p, &name);
	}
	struct fm_focus_rest rest = { n_shown, n - n_shown, { { 0 } } };
	for (size_t i = n_shown; i < n; i++)
		fm_weight_add(&rest.weight, &rows[i].weight);
	put_rest(p, &rest);
}

static void print_lines(const struct page *p)
{
	const struct fm_focus *f = p->f;
	struct fm_str file = fm_focus_file(p->t->a, &f->place);
	size_t n_shown = fm_focus_shown(&p->t->a->options, f->lines.n, FM_FOCUS_LINES);
	if (!f->lines.n || f->place.function_id == FM_NO_ID)
		return;
	title(p, "Lines:", "(with what they call; in [] without other functions of your code)");
	for (size_t i = 0; i < n_shown; i++) {
		const struct fm_focus_line *row = &f->lines.items[i];
		struct fm_buf text = { 0 };
		struct fm_str source = fm_source_line_text(p->t->a->profile, file, row->line);
		char bytes[32];
		fm_buf_printf(&text, "[%5.1f%%] ", row->own ? fm_text_percent(p->t, &row->own->weight) : 0.0);
		if (row->line)
			fm_buf_printf(&text, "%5u", row->line);
		else
			fm_buf_str(&text, "(unknown line)");
		if (row->memory && fm_text_sure_peak(&row->memory->f) >= 1000000)
			fm_buf_printf(&text, "  %s", fm_style_short_bytes(row->memory->f.peak_bytes, bytes));
		fm_buf_str(&text, "  ");
		fm_buf_bytes(&text, source.p, source.len);
		put_weight(p, &row->weight);
		put_name(p, &text);
	}
	struct fm_focus_rest rest = { n_shown, f->lines.n - n_shown, { { 0 } } };
	for (size_t i = n_shown; i < f->lines.n; i++)
		fm_weight_add(&rest.weight, &f->lines.items[i].weight);
	put_rest(p, &rest);
}

static void print_threads(const struct page *p)
{
	const struct fm_focus *f = p->f;
	size_t n_shown = fm_focus_shown(&p->t->a->options, f->threads.n, FM_FOCUS_THREADS);
	if (f->threads.n < 2)
		return;
	title(p, "Threads:", "");
	for (size_t i = 0; i < n_shown; i++) {
		struct fm_buf name = { 0 };
		fm_label_thread(&name, p->t->a, f->threads.items[i].thread_id);
		put_weight(p, &f->threads.items[i].weight);
		put_name(p, &name);
	}
	struct fm_focus_rest rest = { n_shown, f->threads.n - n_shown, { { 0 } } };
	for (size_t i = n_shown; i < f->threads.n; i++)
		fm_weight_add(&rest.weight, &f->threads.items[i].weight);
	put_rest(p, &rest);
}

static void print_memory(const struct page *p)
{
	const struct fm_style *s = &p->t->style;
	const struct fm_heap_figures *m = p->f->memory;
	char text[32], text2[32];
	if (m && (m->peak_bytes || m->alloc_bytes))
		fprintf(s->out, "  %-*s %s at its own peak, %s allocated in all\n", PLACE_COLUMN, "memory",
			fm_style_bytes(m->peak_bytes, text), fm_style_bytes(m->alloc_bytes, text2));
	for (size_t i = 0; i < FM_MIN(p->f->leaks.n, (size_t)FM_FOCUS_LEAKS); i++) {
		const struct fm_heap_leak_row *leak = p->f->leaks.items[i];
		fprintf(s->out, "  %-*s line %u grows by %s a second, at least %s by the end, likelihood %.0f%%\n",
			PLACE_COLUMN, "leak", leak->line,
			fm_style_bytes((uint64_t)(leak->velocity_bytes_s + 0.5), text),
			fm_style_bytes(leak->bytes, text2), 100 * leak->likelihood);
	}
}

static void print_head(const struct page *p)
{
	const struct fm_style *s = &p->t->style;
	const struct fm_focus *f = p->f;
	struct fm_str name = fm_focus_name(p->t->a, &f->place), file = fm_focus_file(p->t->a, &f->place);
	uint32_t line = fm_focus_line(p->t->a, &f->place);
	struct fm_buf head = { 0 }, place = { 0 };
	put_place(&place, p->t, file, line);
	fm_buf_bytes(&head, name.p, name.len);
	if (place.len)
		fm_buf_printf(&head, name.len ? " (%s)" : "%s", (const char *)place.data);
	fm_style_paint(s, FM_PAINT_BOLD);
	fm_style_fit(s, (struct fm_str){ (const char *)head.data, (uint32_t)head.len }, s->width, false);
	fm_style_paint(s, FM_PAINT_NONE);
	fputc('\n', s->out);
	fm_buf_deinit(&head);
	fm_buf_deinit(&place);
	struct fm_str text = fm_source_line_text(p->t->a->profile, file, line);
	if (text.len) {
		fputs("  ", s->out);
		fm_style_fit(s, text, s->width - 2, false);
		fputc('\n', s->out);
	}
}

static void print_total(const struct page *p, const char *what, const struct fm_weight *w, const char *note)
{
	fprintf(p->t->style.out, "  %-*s", PLACE_COLUMN, what);
	put_weight(p, w);
	fprintf(p->t->style.out, "%s%s\n", *note ? "  " : "", note);
}

void fm_text_focus(const struct fm_text *t, const struct fm_focus *f)
{
	struct page p = { t, f, fm_focus_waiting_s(&f->total) > 0 };
	bool is_sampled = fm_weight_cpu_ns(&f->total) || p.has_waiting || f->memory;
	if (is_sampled || f->place.traced == FM_NO_ID) {
		char note[64];
		print_head(&p);
		snprintf(note, sizeof(note), "of %.3f s of CPU time%s", t->cpu_s, p.has_waiting ? ", and waiting" : "");
		print_total(&p, "in all", &f->total, note);
		if (fm_weight_cpu_ns(&f->own))
			print_total(&p, "own lines", &f->own, "with libraries and native code that they call");
		print_total(&p, "by itself", &f->self, "");
		print_memory(&p);
		print_lines(&p);
	}
	if (f->place.traced != FM_NO_ID) { // which knows of every call
		if (is_sampled)
			title(&p, "Every call was traced:", "");
		fm_calls_print_one(&t->style, t->a->calls, f->place.traced, t->a->options.full_filenames);
	} else {
		print_rows(&p, "Called by:", "(where it calls)", f->callers.items, f->callers.n);
		print_rows(&p, "Calls:", "", f->callees.items, f->callees.n);
	}
	print_threads(&p);
}
