// SPDX-License-Identifier: Apache-2.0
// What there is to say of memory beside the figures: what leaks, what may, and what was asked for
// and never used.
#include <stdlib.h>
#include <string.h>

#include "aggregate/heap/leak_test.h"
#include "render/shared/label.h"
#include "render/text/text.h"

#define MAX_LEAKS 3
#define MAX_LEAKS_ON_SCREEN 2 // beside the one in the verdict
#define MIN_UNTOUCHED_BYTES 1000000u
#define MIN_COARSER 1.5
#define MIN_UNTOUCHED_SHARE 0.05 // of all that was asked for at the peak

static void add_place(struct fm_buf *b, const struct fm_text *t, uint32_t function_id, uint32_t line)
{
	if (function_id >= fm_symbolizer_n_functions(t->a->symbolizer)) {
		fm_buf_str(b, "native code");
		return;
	}
	struct fm_str file = fm_label_file(t->a, function_id), name = fm_analysis_function(t->a, function_id)->name;
	fm_buf_bytes(b, name.p, name.len);
	if (file.len && line)
		fm_buf_printf(b, " (%.*s:%u)", (int)file.len, file.p, line);
	else if (file.len)
		fm_buf_printf(b, " (%.*s)", (int)file.len, file.p);
}

static void print(const struct fm_text *t, struct fm_buf *b)
{
	fputs("  ", t->style.out);
	fm_style_wrap(&t->style, (struct fm_str){ (const char *)b->data, (uint32_t)b->len }, 2, 4);
	fm_buf_deinit(b);
}

static int by_velocity(const void *pa, const void *pb)
{
	const struct fm_heap_leak_row *a = *(const struct fm_heap_leak_row *const *)pa,
				      *b = *(const struct fm_heap_leak_row *const *)pb;
	return (b->velocity_bytes_s > a->velocity_bytes_s) - (b->velocity_bytes_s < a->velocity_bytes_s);
}

static void print_leak(const struct fm_text *t, const struct fm_heap_leak_row *leak)
{
	struct fm_buf b = { 0 };
	char text[32];
	fm_buf_str(&b, "Possible leak: ");
	add_place(&b, t, leak->function_id, leak->line);
	fm_buf_printf(&b, " grows by %s a second", fm_style_bytes((uint64_t)(leak->velocity_bytes_s + 0.5), text));
	fm_buf_printf(&b, ", at least %s by the end, likelihood %.0f%%", fm_style_bytes(leak->bytes, text),
		      100 * leak->likelihood);
	if (leak->types.len)
		fm_buf_printf(&b, ", of %.*s", (int)FM_MIN(leak->types.len, 60u), leak->types.p);
	fm_buf_str(&b, ".");
	print(t, &b);
}

static bool is_in_verdict(const struct fm_text *t, const struct fm_heap_leak_row *leak)
{
	for (unsigned i = 0; i < t->verdict.n; i++)
		if (!strcmp(t->verdict.lines[i].rule, "leak") && t->verdict.lines[i].line == leak->line)
			return true;
	return false;
}

static void print_leaks(const struct fm_text *t, size_t n_most)
{
	size_t n = 0;
	const struct fm_heap_leak_row **order =
		fm_alloc((t->heap->leaks.n + 1) * sizeof(const struct fm_heap_leak_row *));
	for (size_t i = 0; i < t->heap->leaks.n; i++)
		if (!is_in_verdict(t, &t->heap->leaks.items[i]))
			order[n++] = &t->heap->leaks.items[i];
	qsort(order, n, sizeof(*order), by_velocity);
	for (size_t i = 0; i < FM_MIN(n, n_most); i++)
		print_leak(t, order[i]);
	if (n > n_most)
		fprintf(t->style.out, "  And %zu more that grow more slowly; --json lists them all.\n", n - n_most);
	free(order);
}

static void print_doubt(const struct fm_text *t)
{
	const struct fm_heap_doubt *doubt = &t->heap->doubt;
	double run_s = fm_seconds(t->heap->settled_ns - t->heap->begin_ns);
	struct fm_buf b = { 0 };
	char text[32];
	add_place(&b, t, doubt->place.function_id, doubt->place.line);
	fm_buf_printf(&b, " held %s at the end and still grew. ", fm_style_bytes(doubt->place.bytes, text));
	if (doubt->why == FM_HEAP_DOUBT_SHORT)
		fm_buf_printf(&b, "A run must take %.0f s or more to show whether it leaks; this one took %.1f s.",
			      FM_LEAK_MIN_RUN_S, run_s);
	else if (doubt->why == FM_HEAP_DOUBT_FEW)
		fm_buf_str(&b, "So few blocks cannot show whether it leaks; use a longer run or --memory=exact.");
	else if (doubt->why == FM_HEAP_DOUBT_POOL)
		fm_buf_str(&b,
			   "These are whole mappings that native threads made, most often for the pool of a library's "
			   "own allocator, which keeps freed memory. Fathom cannot tell whether any of it leaks.");
	else
		fm_buf_str(&b, "It frees much of what it allocates, and the sums of exact mode do not show which "
			       "blocks. To see whether it leaks, use --memory-log, or run without =exact.");
	print(t, &b);
}

static bool is_untouched_worth_it(const struct fm_heap *h)
{
	return h->untouched_bytes >= MIN_UNTOUCHED_BYTES &&
	       (double)h->untouched_bytes >= MIN_UNTOUCHED_SHARE * (double)(h->untouched_bytes + h->peak_bytes);
}

static void print_untouched(const struct fm_text *t)
{
	const struct fm_heap_line_row *most = NULL;
	struct fm_buf b = { 0 };
	char text[32];
	for (size_t i = 0; i < t->heap->lines.n; i++)
		if (!most || t->heap->lines.items[i].f.untouched_bytes > most->f.untouched_bytes)
			most = &t->heap->lines.items[i];
	fm_buf_printf(&b, "%s more were requested but never used, and do not count as memory",
		      fm_style_bytes(t->heap->untouched_bytes, text));
	if (most && most->f.untouched_bytes > t->heap->untouched_bytes / 2) {
		fm_buf_str(&b, "; most of it in ");
		add_place(&b, t, most->function_id, most->line);
	}
	fm_buf_str(&b, ".");
	print(t, &b);
}

// What was asked for with --precision, and not to be had.
static bool is_coarser_than_asked(const struct fm_text *t)
{
	struct fm_str precision = fm_profile_meta(t->a->profile, "precision", FM_STR_LIT("0"));
	uint64_t asked = fm_facts_meta_u64(t->a->profile, "alloc_mean_bytes");
	bool is_asked = precision.len && precision.p[0] >= '1' && precision.p[0] <= '9';
	return is_asked && asked && (double)t->heap->mean_bytes > MIN_COARSER * (double)asked;
}

static void print_coarser(const struct fm_text *t)
{
	struct fm_buf b = { 0 };
	fm_buf_printf(&b,
		      "Fathom followed one byte in %.0f KiB, not in %.0f as --precision asked: the program allocates "
		      "so fast that more would slow it down. --memory=exact counts every block.",
		      (double)t->heap->mean_bytes / 1024,
		      (double)fm_facts_meta_u64(t->a->profile, "alloc_mean_bytes") / 1024);
	print(t, &b);
}

// What was never used is not among it: no memory, and most often what a library reserves.
void fm_text_memory_on_screen(const struct fm_text *t, bool has_heading)
{
	const struct fm_heap *h = t->heap;
	size_t n_leaks = 0;
	for (size_t i = 0; i < h->leaks.n; i++)
		n_leaks += !is_in_verdict(t, &h->leaks.items[i]);
	if (!h->is_there || !(n_leaks || h->doubt.why != FM_HEAP_DOUBT_NONE || is_coarser_than_asked(t)))
		return;
	if (!has_heading)
		fputs("\nMemory:\n", t->style.out);
	print_leaks(t, MAX_LEAKS_ON_SCREEN);
	if (h->doubt.why != FM_HEAP_DOUBT_NONE)
		print_doubt(t);
	if (is_coarser_than_asked(t))
		print_coarser(t);
}

void fm_text_memory(const struct fm_text *t)
{
	const struct fm_heap *h = t->heap;
	char text[32];
	bool has_untouched = h->is_there && is_untouched_worth_it(h);
	if (!h->is_there ||
	    !(h->leaks.n || h->doubt.why != FM_HEAP_DOUBT_NONE || has_untouched || is_coarser_than_asked(t)))
		return;
	fm_text_heading(t, "", "Memory: %s at its peak", fm_style_bytes(h->peak_bytes, text));
	print_leaks(t, MAX_LEAKS);
	if (h->doubt.why != FM_HEAP_DOUBT_NONE)
		print_doubt(t);
	if (has_untouched)
		print_untouched(t);
	if (is_coarser_than_asked(t))
		print_coarser(t);
}
