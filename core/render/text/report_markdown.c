// SPDX-License-Identifier: Apache-2.0
// fathom report --markdown: what a coding agent, or somebody in a hurry, needs to act on: the verdict,
// the lines worth changing with the code around them, what not to trust, and the next command. Eight
// kilobytes at most, whatever the capture holds; what matters most comes first and stays.
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "render/shared/formats.h"
#include "render/shared/label.h"
#include "render/shared/markdown.h"
#include "render/shared/source_line.h"
#include "render/text/text.h"

#define MAX_BYTES 8192
#define MAX_NEXT 700 // of which the last commands have so many
#define MAX_SENTENCE 360
#define MAX_SECTION 1000 // sentences of one kind
#define MAX_NAME 120
#define MAX_PATH 240
#define MAX_SOURCE 110
#define TOP_LINES 5
#define MAX_TRIED 8 // lines whose function may be the one to look at next
#define MAX_SPOTS 3
#define AROUND 2   // lines before and behind
#define MAX_ROWS 9 // of a spot
#define MIN_PERCENT 1.0
#define MIN_OF_HOTTEST 0.1 // lines with less are not worth changing before it
#define MOSTLY_PACKAGES 50.0
#define TOP_FUNCTIONS 6
#define TOP_PACKAGES 3
#define MIN_PACKAGE_PERCENT 3.0
#define TOP_MEMORY 3
#define MIN_MEMORY_BYTES 10000000u

struct page {
	struct fm_text *t;
	struct fm_buf document, piece;
};

static struct fm_str str_of(const struct fm_buf *b)
{
	return (struct fm_str){ b->len ? (const char *)b->data : "", (uint32_t)b->len };
}

static bool end_piece(struct page *p)
{
	return fm_markdown_add(&p->document, &p->piece, MAX_BYTES - MAX_NEXT);
}

// What the text report says in sentences, a paragraph or an item each.
static void put_sentences(struct page *p, const char *before, void (*print)(const struct fm_text *t))
{
	struct fm_text copy = *p->t;
	char *text = NULL;
	size_t len = 0, end = p->document.len + MAX_SECTION;
	copy.style = (struct fm_style){ open_memstream(&text, &len), UINT16_MAX, false, true };
	if (!copy.style.out)
		return;
	print(&copy);
	fclose(copy.style.out);
	for (char *line = text, *next; line && *line; line = next) {
		size_t n = strcspn(line, "\n"), blanks = strspn(line, " ");
		next = line + n + (line[n] == '\n');
		if (blanks >= n || p->document.len >= end)
			continue;
		fm_buf_str(&p->piece, before);
		fm_markdown_text(&p->piece, (struct fm_str){ line + blanks, (uint32_t)(n - blanks) }, MAX_SENTENCE);
		fm_buf_str(&p->piece, "\n");
		end_piece(p);
	}
	free(text);
}

static void put_head(struct page *p)
{
	struct fm_buf command = { 0 };
	fm_label_command(&command, p->t->facts.command);
	fm_buf_str(&p->piece, "# Profile");
	if (command.len) {
		fm_buf_str(&p->piece, " of ");
		fm_markdown_code(&p->piece, str_of(&command), MAX_PATH);
	}
	fm_buf_str(&p->piece, "\n\n");
	end_piece(p);
	fm_buf_deinit(&command);
	put_sentences(p, "", fm_text_ending);
	put_sentences(p, "\n", fm_text_too_little);
}

static void put_verdict(struct page *p)
{
	const struct fm_verdict *v = &p->t->verdict;
	for (unsigned i = 0; i < v->n; i++) {
		fm_buf_str(&p->piece, i ? "- " : "\n## Verdict\n\n- ");
		fm_markdown_text(&p->piece, str_of(&v->lines[i].text), MAX_SENTENCE);
		fm_buf_str(&p->piece, "\n");
		end_piece(p);
	}
}

// ---- lines worth changing ----

// Hot lines that stand so near to each other that they are shown together.
struct spot {
	const struct fm_line_row *rows[TOP_LINES];
	size_t n;
	uint32_t first, last; // lines that are shown
};

static bool joins(const struct spot *spot, const struct fm_line_row *row)
{
	uint32_t first = FM_MIN(spot->first, row->line > AROUND ? row->line - AROUND : 1);
	uint32_t last = FM_MAX(spot->last, row->line + AROUND);
	return spot->rows[0]->file_id == row->file_id && last - first < MAX_ROWS;
}

static size_t find_spots(const struct fm_text *t, struct spot ret[static MAX_SPOTS])
{
	size_t n_spots = 0, n_lines = 0;
	double least = MIN_PERCENT;
	for (size_t i = 0; i < t->summary->lines.n && n_lines < TOP_LINES; i++) {
		const struct fm_line_row *row = &t->summary->lines.items[i];
		double percent = fm_text_percent(t, &row->weight);
		if (percent < least)
			break; // most time first
		if (!fm_text_shows(t, row->function_id) || !row->line || percent < fm_text_plus_minus(t, &row->weight))
			continue;
		least = FM_MAX(least, MIN_OF_HOTTEST * percent);
		size_t k = 0;
		while (k < n_spots && !joins(&ret[k], row))
			k++;
		if (k == MAX_SPOTS)
			continue;
		uint32_t first = row->line > AROUND ? row->line - AROUND : 1, last = row->line + AROUND;
		if (k == n_spots)
			ret[n_spots++] = (struct spot){ .first = first, .last = last };
		ret[k].first = FM_MIN(ret[k].first, first);
		ret[k].last = FM_MAX(ret[k].last, last);
		ret[k].rows[ret[k].n++] = row;
		n_lines++;
	}
	return n_spots;
}

static const struct fm_line_row *row_at(const struct fm_text *t, const struct spot *spot, uint32_t line)
{
	for (size_t i = 0; i < t->summary->lines.n; i++) {
		const struct fm_line_row *row = &t->summary->lines.items[i];
		if (fm_text_percent(t, &row->weight) < MIN_PERCENT)
			return NULL;
		if (row->file_id == spot->rows[0]->file_id && row->line == line && fm_text_shows(t, row->function_id))
			return row;
	}
	return NULL;
}

static void put_code(struct page *p, const struct spot *spot, struct fm_source_walk source)
{
	fm_buf_str(&p->piece, "```python\n");
	for (uint32_t line = spot->first; line <= spot->last; line++) {
		const struct fm_line_row *row = row_at(p->t, spot, line);
		struct fm_str text = fm_source_line(&source, line);
		if (!row && !text.len && source.p >= source.end)
			break;
		fm_buf_printf(&p->piece, "%5u | ", line);
		if (row)
			fm_buf_printf(&p->piece, "%5.1f%% ±%-4.1f| ", fm_text_percent(p->t, &row->weight),
				      fm_text_plus_minus(p->t, &row->weight));
		else
			fm_buf_str(&p->piece, "            | ");
		fm_markdown_line(&p->piece, text, MAX_SOURCE);
		fm_buf_u8(&p->piece, '\n');
	}
	fm_buf_str(&p->piece, "```\n");
}

static void put_spot(struct page *p, const struct spot *spot)
{
	const struct fm_function *f = fm_analysis_function(p->t->a, spot->rows[0]->function_id);
	struct fm_source_walk source = fm_source_open(p->t->a->profile, f->file);
	fm_buf_u8(&p->piece, '\n');
	fm_markdown_code(&p->piece, f->file, MAX_PATH);
	fm_buf_str(&p->piece, ", in ");
	fm_markdown_code(&p->piece, fm_label_function(f), MAX_NAME);
	if (source.p < source.end) {
		fm_buf_str(&p->piece, ":\n\n");
		put_code(p, spot, source);
	} else {
		for (size_t i = 0; i < spot->n; i++)
			fm_buf_printf(&p->piece, "%s line %u %.1f%% ±%.1f", i ? "," : ":", spot->rows[i]->line,
				      fm_text_percent(p->t, &spot->rows[i]->weight),
				      fm_text_plus_minus(p->t, &spot->rows[i]->weight));
		fm_buf_str(&p->piece, " (its source was not kept)\n");
	}
	end_piece(p);
}

static void put_lines(struct page *p)
{
	struct spot spots[MAX_SPOTS];
	size_t n = find_spots(p->t, spots);
	if (n) {
		fm_buf_printf(&p->piece, "\n## Lines\n\nShares of %.3f s of CPU time%s.\n", p->t->cpu_s,
			      p->t->is_all_code ? "" : ", with the libraries that a line calls");
		end_piece(p);
	}
	for (size_t i = 0; i < n; i++)
		put_spot(p, &spots[i]);
}

// ---- functions, packages, memory ----

static void put_place(struct page *p, struct fm_str file, uint32_t line)
{
	struct fm_buf place = { 0 };
	struct fm_str name = fm_label_last_part(file);
	fm_buf_bytes(&place, name.p, name.len);
	if (line)
		fm_buf_printf(&place, ":%u", line);
	fm_markdown_cell(&p->piece, str_of(&place), MAX_NAME);
	fm_buf_deinit(&place);
}

static void put_functions(struct page *p)
{
	static const char *const titles[] = { "with calls:", "own lines:", "function", "at" };
	const struct fm_summary *sum = p->t->summary;
	size_t n = 0;
	for (size_t i = 0; i < sum->functions.n && n < TOP_FUNCTIONS; i++) {
		const struct fm_function_row *row = &sum->functions.items[i];
		const struct fm_function *f = fm_analysis_function(p->t->a, row->function_id);
		if (fm_text_percent(p->t, &row->total) < MIN_PERCENT)
			break; // most time first
		if (!fm_text_shows(p->t, row->function_id) || fm_package_is_comprehension(f))
			continue;
		if (!n++) {
			fm_buf_str(&p->piece, "\n## Functions\n\n");
			fm_markdown_titles(&p->piece, titles, FM_ARRAY_LEN(titles));
		}
		fm_buf_printf(&p->piece, "| %.1f%% ±%.1f | %.1f%% | ", fm_text_percent(p->t, &row->total),
			      fm_text_plus_minus(p->t, &row->total), fm_text_percent(p->t, fm_text_share(p->t, row)));
		fm_markdown_cell(&p->piece, fm_label_function(f), MAX_NAME);
		fm_buf_str(&p->piece, " | ");
		put_place(p, f->file.len ? f->file : f->path, f->line);
		fm_buf_str(&p->piece, " |\n");
		end_piece(p);
	}
}

static int by_total(const void *pa, const void *pb)
{
	const struct fm_own_package *a = *(const struct fm_own_package *const *)pa,
				    *b = *(const struct fm_own_package *const *)pb;
	uint64_t na = fm_weight_cpu_ns(&a->total), nb = fm_weight_cpu_ns(&b->total);
	return na != nb ? FM_ORDER(nb, na) : FM_ORDER(a, b);
}

static void put_packages(struct page *p)
{
	const struct fm_own_tree *tree = &p->t->own_tree;
	FM_VEC(const struct fm_own_package *) found = { 0 };
	for (size_t i = 0; i < tree->packages.n; i++)
		if (fm_text_percent(p->t, &tree->packages.items[i].total) >= MIN_PACKAGE_PERCENT)
			fm_vec_push(&found, &tree->packages.items[i]);
	if (found.n)
		qsort(found.items, found.n, sizeof(*found.items), by_total);
	for (size_t i = 0; i < FM_MIN(found.n, (size_t)TOP_PACKAGES); i++) {
		fm_buf_str(&p->piece, i ? ", " : "\nOf that, in packages: ");
		fm_markdown_code(&p->piece, found.items[i]->name, MAX_NAME);
		fm_buf_printf(&p->piece, " %.1f%%", fm_text_percent(p->t, &found.items[i]->total));
	}
	if (fm_text_percent(p->t, &tree->imports) >= MIN_PACKAGE_PERCENT)
		fm_buf_printf(&p->piece, "%simports %.1f%%", found.n ? ", " : "\nOf that, ",
			      fm_text_percent(p->t, &tree->imports));
	if (p->piece.len)
		fm_buf_str(&p->piece, ".\n");
	end_piece(p);
	fm_vec_deinit(&found);
}

static void print_memory(const struct fm_text *t)
{
	fm_text_memory_on_screen(t, true);
}

static void put_memory(struct page *p)
{
	const struct fm_heap *heap = p->t->heap;
	size_t n = 0;
	char text[32];
	for (size_t i = 0; i < heap->lines.n && n < TOP_MEMORY; i++) {
		const struct fm_heap_line_row *row = &heap->lines.items[i];
		const struct fm_function *f = fm_analysis_function(p->t->a, row->function_id);
		if (row->f.peak_bytes < MIN_MEMORY_BYTES)
			break; // most memory first
		if (!fm_text_shows(p->t, row->function_id) || !fm_text_sure_peak(&row->f))
			continue;
		fm_buf_printf(&p->piece, "%s- %s at its own peak: ", n++ ? "" : "\n## Memory\n\n",
			      fm_style_bytes(row->f.peak_bytes, text));
		fm_markdown_code(&p->piece, fm_label_last_part(f->file), MAX_NAME);
		fm_buf_printf(&p->piece, " line %u ", row->line);
		fm_markdown_code(&p->piece, fm_source_line_text(p->t->a->profile, f->file, row->line), MAX_SOURCE);
		fm_buf_u8(&p->piece, '\n');
		end_piece(p);
	}
	put_sentences(p, n ? "- " : "\n", print_memory);
}

// ---- what to do next ----

static void put_command(struct page *p, const char *command, struct fm_str word, struct fm_str path, const char *why)
{
	struct fm_buf line = { 0 };
	fm_buf_str(&line, command);
	if (word.len) {
		fm_buf_u8(&line, ' ');
		fm_label_word(&line, word);
	}
	fm_buf_u8(&line, ' ');
	fm_label_word(&line, path);
	if (line.len <= MAX_PATH) { // half a command helps nobody
		fm_buf_str(&p->piece, "- ");
		fm_markdown_code(&p->piece, str_of(&line), MAX_PATH + 8);
		fm_buf_printf(&p->piece, " %s\n", why);
	}
	fm_buf_deinit(&line);
}

// A word that --focus takes for this function alone; "" where there is none.
static void put_word(struct fm_buf *b, const struct fm_text *t, uint32_t function_id)
{
	const struct fm_function *f = fm_analysis_function(t->a, function_id);
	size_t n = 0;
	for (size_t i = 0; i < t->summary->functions.n; i++)
		n += fm_str_eq(fm_analysis_function(t->a, t->summary->functions.items[i].function_id)->name, f->name);
	struct fm_buf word = { 0 };
	if (n == 1)
		fm_buf_bytes(&word, f->name.p, f->name.len);
	else if (f->file.len && f->line)
		fm_buf_printf(&word, "%.*s:%u", (int)f->file.len, f->file.p, f->line);
	fm_utf8_clean(b, str_of(&word));
	if (b->len != word.len || !word.len || memcmp(b->data, word.data, word.len) != 0)
		b->len = 0; // what cannot be shown cannot be typed
	fm_buf_deinit(&word);
}

static bool is_mostly_packages(const struct fm_text *t)
{
	double percent = 0;
	for (size_t i = 0; i < t->own_tree.packages.n; i++)
		percent = FM_MAX(percent, fm_text_percent(t, &t->own_tree.packages.items[i].total));
	return percent >= MOSTLY_PACKAGES && !t->is_all_code;
}

static void put_next(struct page *p)
{
	const struct fm_text *t = p->t;
	struct fm_buf word = { 0 };
	for (size_t i = 0; i < FM_MIN(t->summary->lines.n, (size_t)MAX_TRIED) && !word.len; i++)
		if (fm_text_shows(t, t->summary->lines.items[i].function_id))
			put_word(&word, t, t->summary->lines.items[i].function_id);
	fm_buf_str(&p->piece, "\n## Next\n\n");
	if (word.len)
		put_command(p, "fathom report --markdown --focus", str_of(&word), fm_text_path(t),
			    "who calls it, and what it calls");
	if (is_mostly_packages(t))
		put_command(p, "fathom report --markdown --detailed", FM_STR_LIT(""), fm_text_path(t),
			    "the lines of packages, too");
	put_command(p, "fathom diff --markdown", FM_STR_LIT(""), fm_text_path(t),
		    "and the path of a second run: what the change did");
	fm_markdown_add(&p->document, &p->piece, MAX_BYTES);
	fm_buf_deinit(&word);
}

enum fm_err fm_write_markdown(FILE *out, struct fm_analysis *a, struct fm_diag *diag)
{
	(void)diag;
	struct fm_text t;
	struct page p = { .t = &t };
	fm_text_init(&t, out, a);
	put_head(&p);
	put_verdict(&p);
	if (t.facts.n_samples) {
		put_lines(&p);
		put_functions(&p);
		put_packages(&p);
	} else {
		put_sentences(&p, "\n", fm_text_no_samples);
	}
	put_memory(&p);
	put_sentences(&p, "\n", fm_text_much_not_seen);
	put_next(&p);
	fwrite(p.document.data, 1, p.document.len, out);
	fm_buf_deinit(&p.document);
	fm_text_deinit(&t);
	return FM_OK;
}
