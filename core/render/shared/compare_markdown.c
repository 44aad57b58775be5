// SPDX-License-Identifier: Apache-2.0
// fathom diff --markdown: what changed, for a pull request or a coding agent.
#include "render/shared/compare.h"

#include <math.h>

#include "render/shared/label.h"
#include "render/shared/markdown.h"

#define MAX_BYTES 8192
#define MAX_NAME 120
#define MAX_SOURCE 110
#define MAX_COMMAND 300
#define TOP 6

struct page {
	struct fm_buf document, piece;
};

static bool end_piece(struct page *p)
{
	return fm_markdown_add(&p->document, &p->piece, MAX_BYTES);
}

static void put_titles(struct page *p, const char *title, const char *unit)
{
	char base[32], new[32];
	snprintf(base, sizeof(base), "BASE, %s:", unit);
	snprintf(new, sizeof(new), "NEW, %s:", unit);
	const char *const titles[] = { base, new, "change:", "" };
	fm_buf_printf(&p->piece, "\n**%s**\n\n", title);
	fm_markdown_titles(&p->piece, titles, FM_ARRAY_LEN(titles));
}

static void put_change(struct page *p, const struct fm_change *c, double scale)
{
	fm_buf_printf(&p->piece, "| %.3f | %.3f | ", scale * c->base.mean, scale * c->new.mean);
	if (c->is_significant)
		fm_buf_str(&p->piece, "**");
	if (c->base.mean > 0 && c->new.mean < 10 * c->base.mean)
		fm_buf_printf(&p->piece, "%+.1f%%", 100 * c->delta / c->base.mean);
	else
		fm_buf_printf(&p->piece, "%+.3f", scale * c->delta);
	if (c->plus_minus > 0 && c->base.mean > 0 && c->new.mean < 10 * c->base.mean)
		fm_buf_printf(&p->piece, " ±%.1f", 100 * c->plus_minus / c->base.mean);
	fm_buf_str(&p->piece, c->is_significant ? "** | " : " | ");
}

static void put_totals(struct page *p, const struct fm_diff *d)
{
	const struct {
		const char *name;
		double scale;
		const struct fm_change *change;
	} totals[] = { { "wall time, s", 1, &d->wall_s },
		       { "CPU time, s", 1, &d->cpu_s },
		       { "RAM, MB", 1e-6, &d->max_rss_bytes } };
	static const char *const titles[] = { "BASE:", "NEW:", "change:", "" };
	fm_markdown_titles(&p->piece, titles, FM_ARRAY_LEN(titles));
	for (size_t i = 0; i < FM_ARRAY_LEN(totals); i++) {
		struct fm_change change = *totals[i].change;
		if (change.base.mean <= 0 && change.new.mean <= 0)
			continue; // not known
		change.is_significant &= !d->is_sampling_only;
		put_change(p, &change, totals[i].scale);
		fm_buf_printf(&p->piece, "%s |\n", totals[i].name);
	}
	end_piece(p);
}

// One that is within its own interval is no news.
static bool is_news(const struct fm_change *c)
{
	return fabs(c->delta) > c->plus_minus;
}

static void put_row(struct page *p, const struct fm_diff_row *diff, bool is_line, bool is_memory)
{
	const struct fm_run_row *row = diff->row;
	struct fm_buf place = { 0 };
	fm_buf_bytes(&place, row->file.p, row->file.len);
	if (row->line)
		fm_buf_printf(&place, ":%u", row->line);
	put_change(p, &diff->change, is_memory ? 1e-6 : 1);
	fm_markdown_cell(&p->piece, (struct fm_str){ place.len ? (const char *)place.data : "", (uint32_t)place.len },
			 MAX_NAME);
	fm_buf_u8(&p->piece, ' ');
	fm_markdown_cell(&p->piece, is_line && row->text.len ? row->text : row->name, MAX_SOURCE);
	fm_buf_printf(&p->piece, "%s |\n", !diff->is_in_base ? " (new)" : !diff->is_in_new ? " (gone)" : "");
	fm_buf_deinit(&place);
}

static void put_rows(struct page *p, const char *title, const struct fm_diff_row *rows, size_t n, bool is_line,
		     bool is_memory)
{
	size_t n_shown = 0;
	for (size_t i = 0; i < n && n_shown < TOP; i++) {
		if (!is_news(&rows[i].change))
			continue;
		if (!n_shown++)
			put_titles(p, title, is_memory ? "MB" : "s");
		put_row(p, &rows[i], is_line, is_memory);
		end_piece(p);
	}
	if (n && !n_shown && !is_memory)
		fm_buf_printf(&p->piece, "\n%s: none changed by more than its interval.\n", title);
	end_piece(p);
}

static void put_notes(struct page *p, const struct fm_diff *d, const struct fm_runs *base, const struct fm_runs *new)
{
	if (!fm_compare_same_command(base, new)) {
		struct fm_buf command = { 0 };
		fm_buf_str(&p->piece, "The command lines differ, and the figures include the effect. BASE: ");
		fm_label_command(&command, base->command);
		fm_markdown_code(&p->piece, (struct fm_str){ (const char *)command.data, (uint32_t)command.len },
				 MAX_COMMAND);
		command.len = 0;
		fm_label_command(&command, new->command);
		fm_buf_str(&p->piece, ", NEW: ");
		fm_markdown_code(&p->piece, (struct fm_str){ (const char *)command.data, (uint32_t)command.len },
				 MAX_COMMAND);
		fm_buf_str(&p->piece, ".\n\n");
		fm_buf_deinit(&command);
	}
	if (d->is_sampling_only)
		fm_buf_str(&p->piece, "Bold marks what chance does not explain (95%). One side has only one run: "
				      "intervals cover only the sampling, not how much runs differ; use `fathom run "
				      "--repeat 5` on both sides to measure that.\n\n");
	else
		fm_buf_printf(&p->piece,
			      "Bold marks what chance does not explain (95%%); ± is the 95%% interval. BASE has %u "
			      "runs, NEW %u.\n\n",
			      base->n, new->n);
	end_piece(p);
}

void fm_compare_diff_markdown(FILE *out, const struct fm_diff *d, const struct fm_runs *base, const struct fm_runs *new)
{
	struct page p = { 0 };
	put_notes(&p, d, base, new);
	put_totals(&p, d);
	put_rows(&p, "Lines that changed most, CPU seconds", d->lines.items, d->lines.n, true, false);
	put_rows(&p, "Functions, CPU seconds with everything they call", d->functions.items, d->functions.n, false,
		 false);
	put_rows(&p, "Lines whose memory changed most", d->memory_lines.items, d->memory_lines.n, true, true);
	put_rows(&p, "Functions whose memory changed most", d->memory_functions.items, d->memory_functions.n, false,
		 true);
	fwrite(p.document.data, 1, p.document.len, out);
	fm_buf_deinit(&p.document);
}
