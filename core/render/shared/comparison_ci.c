// SPDX-License-Identifier: Apache-2.0
// What CI systems read of a comparison: JUnit's XML, and GitHub's lines.
#include "base/compiler.h"
#include "base/utf8.h"
#include "render/shared/compare.h"
#include "render/shared/comparison.h"
#include "render/shared/xml.h"

// GitHub shows ten errors of a step, and people read fewer.
#define MAX_ANNOTATIONS 5u
#define MAX_GUILTY 10u

static struct fm_str text_of(const struct fm_buf *b)
{
	return (struct fm_str){ (const char *)b->data, (uint32_t)b->len };
}

static bool is_guilty(const struct fm_diff_row *row)
{
	return row->is_in_new && row->change.delta > 0 && row->change.is_significant;
}

// "app.py:12 work: total += i, +0.330 s +-0.012"
static void name_row(struct fm_buf *b, const struct fm_diff_row *row)
{
	fm_utf8_clean(b, row->row->file);
	fm_buf_printf(b, ":%u ", row->row->line);
	fm_utf8_clean(b, row->row->name);
	if (row->row->text.len) {
		fm_buf_str(b, ": ");
		fm_utf8_clean(b, row->row->text);
	}
	fm_buf_printf(b, ", %+.3f s +-%.3f", row->change.delta, row->change.plus_minus);
}

static void put_failure(FILE *out, const struct fm_comparison *c, struct fm_str verdict)
{
	size_t n = 0;
	fputs("      <failure type=\"slowdown\" message=\"", out);
	fm_xml_put(out, verdict);
	fputs("\">", out);
	for (size_t i = 0; i < c->diff->lines.n && n < MAX_GUILTY; i++) {
		struct fm_buf line = { 0 };
		if (!is_guilty(&c->diff->lines.items[i]))
			continue;
		name_row(&line, &c->diff->lines.items[i]);
		fputs(n++ ? "\n" : "", out);
		fm_xml_put(out, text_of(&line));
		fm_buf_deinit(&line);
	}
	fputs("</failure>\n", out);
}

static double seconds_of(const struct fm_runs *runs)
{
	double sum = 0;
	for (unsigned i = 0; i < runs->n; i++)
		sum += runs->each.items[i].wall_s;
	return sum;
}

void fm_comparison_junit(FILE *out, const struct fm_comparison *c)
{
	struct fm_buf verdict = { 0 };
	unsigned n_tests = 0, n_failures = 0;
	fm_comparison_verdict(&verdict, c);
	for (unsigned which = 0; which < FM_N_COMPARED; which++) {
		n_tests += c->figures[which].is_known && c->figures[which].limit >= 0;
		n_failures += c->figures[which].is_beyond;
	}
	fprintf(out,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
		"  <testsuite name=\"fathom compare\" tests=\"%u\" failures=\"%u\" errors=\"0\" skipped=\"0\" "
		"time=\"%.3f\">\n",
		n_tests, n_failures, seconds_of(c->base) + seconds_of(c->head));
	for (unsigned which = 0; which < FM_N_COMPARED; which++) {
		const struct fm_compared_figure *f = &c->figures[which];
		if (!f->is_known || f->limit < 0)
			continue;
		fprintf(out, "    <testcase classname=\"fathom.compare\" name=\"%s\">\n",
			fm_compared_kinds[which].name);
		if (f->is_beyond)
			put_failure(out, c, text_of(&verdict));
		fputs("      <system-out>", out);
		fm_xml_put(out, text_of(&verdict));
		fputs("</system-out>\n    </testcase>\n", out);
	}
	fputs("  </testsuite>\n</testsuites>\n", out);
	fm_buf_deinit(&verdict);
}

// A line that begins with two colons is an order to GitHub: what comes from files must neither end the
// line nor the part of it that it stands in.
static void put_escaped(FILE *out, struct fm_str text, bool is_property)
{
	struct fm_buf clean = { 0 };
	fm_utf8_clean(&clean, text);
	for (size_t i = 0; i < clean.len; i++) {
		unsigned char ch = clean.data[i];
		if (ch == '%' || (is_property && (ch == ':' || ch == ',')))
			fprintf(out, "%%%02X", ch);
		else
			putc_unlocked(ch, out);
	}
	fm_buf_deinit(&clean);
}

static void put_annotation(FILE *out, const char *level, struct fm_str path, uint32_t line, struct fm_str message)
{
	fprintf(out, "::%s ", level);
	if (path.len) {
		fputs("file=", out);
		put_escaped(out, path, true);
		fprintf(out, ",line=%u,", line ? line : 1);
	}
	fputs("title=fathom compare::", out);
	put_escaped(out, message, false);
	fputc('\n', out);
}

void fm_comparison_github(FILE *out, const struct fm_comparison *c)
{
	struct fm_buf verdict = { 0 };
	unsigned n = 0;
	bool is_beyond = fm_comparison_is_beyond(c);
	fm_comparison_verdict(&verdict, c);
	for (size_t i = 0; is_beyond && i < c->diff->lines.n && n < MAX_ANNOTATIONS; i++) {
		const struct fm_diff_row *row = &c->diff->lines.items[i];
		struct fm_buf message = { 0 };
		struct fm_str path = fm_comparison_path(c, row->row);
		if (!is_guilty(row) || !path.len)
			continue;
		fm_buf_printf(&message, "%+.3f s +-%.3f of CPU time here", row->change.delta, row->change.plus_minus);
		if (!n++)
			fm_buf_printf(&message, ". %s", (const char *)verdict.data);
		put_annotation(out, "error", path, row->row->line, text_of(&message));
		fm_buf_deinit(&message);
	}
	if (!n)
		put_annotation(out, is_beyond ? "error" : "notice", FM_STR_LIT(""), 0, text_of(&verdict));
	fm_buf_deinit(&verdict);
}
