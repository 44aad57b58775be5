// SPDX-License-Identifier: Apache-2.0
// A comparison for the summary of a CI step, or for a comment on a pull request.
#include "base/compiler.h"
#include "render/shared/comparison.h"
#include "render/shared/markdown.h"

#define MAX_ROWS 10u
#define SOURCE_BYTES 120u

static struct fm_str text_of(const struct fm_buf *b)
{
	return (struct fm_str){ (const char *)b->data, (uint32_t)b->len };
}

static void add_figures(struct fm_buf *doc, const struct fm_comparison *c)
{
	static const char *const titles[] = { "", "base:", "head:", "change:", "95% interval:", "limit:" };
	struct fm_buf b = { 0 };
	fm_markdown_titles(&b, titles, FM_ARRAY_LEN(titles));
	for (unsigned which = 0; which < FM_N_COMPARED; which++) {
		const struct fm_compared_figure *f = &c->figures[which];
		const struct fm_compared_kind *kind = &fm_compared_kinds[which];
		const char *mark = f->is_beyond || f->paired.is_significant ? "**" : "";
		if (!f->is_known)
			continue;
		fm_buf_printf(&b, "| %s, %s | %.3f | %.3f | %s", kind->name, kind->unit, kind->scale * f->paired.base,
			      kind->scale * f->paired.head, mark);
		fm_comparison_percent(&b, f->paired.change);
		fm_buf_printf(&b, "%s | ", mark);
		fm_comparison_percent(&b, f->paired.low);
		fm_buf_str(&b, " to ");
		fm_comparison_percent(&b, f->paired.high);
		if (f->limit >= 0)
			fm_buf_printf(&b, " | %g%% |\n", 100 * f->limit);
		else
			fm_buf_str(&b, " | |\n");
	}
	fm_markdown_add(doc, &b, FM_COMPARISON_MARKDOWN);
}

// Those whose change chance does not explain; largest first. False: there are none.
static bool add_rows(struct fm_buf *doc, const struct fm_comparison *c, const char *title,
		     const struct fm_diff_row *rows, size_t n_rows, bool is_line)
{
	const char *const titles[] = { "change:", "base:", "head:", is_line ? "line" : "function",
				       is_line ? "source" : "" };
	size_t n = 0;
	for (size_t i = 0; i < n_rows && n < MAX_ROWS; i++) {
		const struct fm_diff_row *row = &rows[i];
		struct fm_buf b = { 0 }, place = { 0 };
		if (!row->change.is_significant)
			continue;
		if (!n++) {
			fm_buf_printf(&b, "\n%s\n\n", title);
			fm_markdown_titles(&b, titles, FM_ARRAY_LEN(titles) - !is_line);
		}
		struct fm_str path = fm_comparison_path(c, row->row);
		if (!is_line)
			fm_buf_bytes(&place, row->row->name.p, row->row->name.len);
		fm_buf_str(&place, is_line ? "" : " (");
		fm_buf_bytes(&place, path.len ? path.p : row->row->file.p, path.len ? path.len : row->row->file.len);
		fm_buf_printf(&place, ":%u%s", row->row->line, is_line ? "" : ")");
		fm_buf_printf(&b, "| %+.3f s | %.3f | %.3f | ", row->change.delta, row->change.base.mean,
			      row->change.new.mean);
		fm_markdown_cell(&b, text_of(&place), SOURCE_BYTES);
		fm_buf_str(&b, is_line ? " | " : "");
		if (is_line)
			fm_markdown_cell(&b, row->row->text.len ? row->row->text : row->row->name, SOURCE_BYTES);
		fm_buf_str(&b, " |\n");
		fm_buf_deinit(&place);
		if (!fm_markdown_add(doc, &b, FM_COMPARISON_MARKDOWN))
			break;
	}
	return n > 0;
}

static void add_note(struct fm_buf *doc, const struct fm_comparison *c, bool has_rows)
{
	struct fm_buf b = { 0 };
	if (!has_rows)
		fm_buf_str(&b, "\nNo line or function changed by more than chance explains.\n");
	fm_buf_printf(&b, "\n%u pairs, in random order within each. Base: ", c->base->n);
	fm_markdown_code(&b, fm_str_of(c->base_name), 300);
	fm_buf_str(&b, "; head: ");
	fm_markdown_code(&b, fm_str_of(c->head_name), 300);
	fm_buf_str(&b, ".");
	if (*c->no_instructions)
		fm_buf_printf(&b, " Instructions were not counted: %s.", c->no_instructions);
	if (*c->doubt) {
		fm_buf_str(&b, "\n\n**In doubt:** ");
		fm_markdown_text(&b, fm_str_of(c->doubt), 600);
	}
	fm_buf_u8(&b, '\n');
	fm_markdown_add(doc, &b, FM_COMPARISON_MARKDOWN);
}

void fm_comparison_markdown(FILE *out, const struct fm_comparison *c)
{
	struct fm_buf doc = { 0 }, b = { 0 }, verdict = { 0 };
	fm_comparison_verdict(&verdict, c);
	fm_buf_printf(&b, "### Fathom: %s\n\n", fm_comparison_is_beyond(c) ? "slower" : "not slower");
	fm_markdown_text(&b, text_of(&verdict), 1000);
	fm_buf_str(&b, "\n\n");
	fm_markdown_add(&doc, &b, FM_COMPARISON_MARKDOWN);
	add_figures(&doc, c);
	bool has_rows =
		add_rows(&doc, c, "Lines that changed (CPU time):", c->diff->lines.items, c->diff->lines.n, true);
	has_rows |= add_rows(&doc, c,
			     "Functions that changed (CPU time, with everything they call):", c->diff->functions.items,
			     c->diff->functions.n, false);
	add_note(&doc, c, has_rows);
	fwrite(doc.data, 1, doc.len, out);
	fm_buf_deinit(&doc);
	fm_buf_deinit(&verdict);
}
