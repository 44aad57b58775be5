// SPDX-License-Identifier: Apache-2.0
// The call graph as a picture that needs nothing to be drawn with: what gprof2dot and Graphviz
// would show, as one SVG file.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "render/export/callgraph.h"
#include "render/shared/formats.h"
#include "render/shared/label.h"
#include "render/export/layered.h"
#include "render/shared/xml.h"

#define MAX_BOXES 120 // more than anybody reads; the lightest are left out
#define GAP_X 26
#define GAP_Y 74 // room for the numbers on the lines
#define MARGIN 20
#define TOP 54
#define LEAST_WIDTH 520 // of the page: its heading

#define BOX_HEIGHT 64
#define LEAST_BOX_WIDTH 124 // "100.00% (100.00%)"
#define MOST_BOX_WIDTH 280
#define NAME_PX 7.0 // of a character, on average
#define SMALL_PX 6.0
#define LOOP_PX 26 // how far a function's line to itself stands out

#define LABEL_LINE 11

struct rectangle {
	double left, top, right, bottom;
};

struct drawing {
	FILE *out;
	const struct fm_callgraph *graph;
	struct fm_layered layout;
	FM_VEC(struct rectangle) labels; // that have their place
};

static unsigned cells_of(struct fm_str text)
{
	unsigned n = 0;
	for (const char *p = text.p, *end = text.p + text.len; p < end;)
		n += fm_utf8_width(fm_utf8_next(&p, end));
	return n;
}

// As much of the text as fits.
static void put_fitting(FILE *out, struct fm_str text, double width, double px)
{
	unsigned room = (unsigned)(width / px), used = 0;
	struct fm_buf cut = { 0 };
	bool is_whole = cells_of(text) <= room;
	for (const char *p = text.p, *end = text.p + text.len; p < end;) {
		uint32_t c = fm_utf8_next(&p, end);
		used += fm_utf8_width(c);
		if (!is_whole && used >= room) {
			fm_utf8_put(&cut, 0x2026);
			break;
		}
		fm_utf8_put(&cut, c);
	}
	fm_xml_put(out, (struct fm_str){ (const char *)cut.data, (uint32_t)cut.len });
	fm_buf_deinit(&cut);
}

static void put_color(FILE *out, double share)
{
	struct fm_hsv c = fm_callgraph_color(share);
	double parts[3]; // red, green, blue: each a third of the circle on
	for (int i = 0; i < 3; i++) {
		double at = fmod(c.h * 6 + (i == 0 ? 0 : i == 1 ? 4 : 2), 6), far = fabs(at - 3) - 1;
		parts[i] = 255 * c.v * (1 - c.s * (1 - FM_MIN(FM_MAX(far, 0.0), 1.0)));
	}
	fprintf(out, "#%02x%02x%02x", (unsigned)parts[0], (unsigned)parts[1], (unsigned)parts[2]);
}

static int compare_lines(const void *a, const void *b)
{
	const struct fm_callgraph_line *x = a, *y = b;
	if (x->total != y->total)
		return x->total < y->total ? 1 : -1;
	return x->from != y->from ? (x->from > y->from) - (x->from < y->from) : (x->to > y->to) - (x->to < y->to);
}

static void place(struct drawing *d)
{
	for (size_t i = 0; i < d->graph->boxes.n; i++) {
		const struct fm_callgraph_box *b = &d->graph->boxes.items[i];
		double width = FM_MAX(cells_of(b->name) * NAME_PX, cells_of(b->place) * SMALL_PX) + 16;
		fm_vec_push(&d->layout.boxes,
			    (struct fm_layered_box){ .width = FM_MIN(FM_MAX(width, LEAST_BOX_WIDTH), MOST_BOX_WIDTH),
						     .height = BOX_HEIGHT });
	}
	for (size_t i = 0; i < d->graph->lines.n; i++) {
		const struct fm_callgraph_line *l = &d->graph->lines.items[i];
		fm_vec_push(&d->layout.lines,
			    (struct fm_layered_line){ .from = l->from, .to = l->to, .weight = l->total });
		if (l->from == l->to)
			d->layout.boxes.items[l->from].room_right = LOOP_PX + 56;
	}
	fm_layered_place(&d->layout, GAP_X, GAP_Y);
	for (size_t i = 0; i < d->layout.boxes.n; i++) {
		d->layout.boxes.items[i].x += MARGIN;
		d->layout.boxes.items[i].y += TOP;
	}
	for (size_t i = 0; i < d->layout.points.n; i++) {
		d->layout.points.items[i].x += MARGIN;
		d->layout.points.items[i].y += TOP;
	}
}

// The numbers of a line, centred (or beginning) at x.
static void put_numbers(struct drawing *d, const struct fm_callgraph_line *l, double x, double y, const char *anchor)
{
	fprintf(d->out, "<text class=\"n\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%.2f%%", x, y, anchor,
		100 * l->total);
	if (d->graph->is_traced)
		fprintf(d->out, "<tspan x=\"%.1f\" dy=\"%d\">%" PRIu64 "x</tspan>", x, LABEL_LINE, l->n_calls);
	fputs("</text>", d->out);
}

static bool is_free(const struct drawing *d, struct rectangle r)
{
	for (size_t i = 0; i < d->labels.n; i++) {
		const struct rectangle *o = &d->labels.items[i];
		if (r.left < o->right && o->left < r.right && r.top < o->bottom && o->top < r.bottom)
			return false;
	}
	return true;
}

// On the line's first stretch, where it does not cover other numbers. Heavy lines choose first; one
// that finds no place has its numbers in the title alone.
static void put_label(struct drawing *d, const struct fm_callgraph_line *l, struct fm_layered_point a,
		      struct fm_layered_point b)
{
	static const double tries[] = { 0.5, 0.4, 0.6, 0.32, 0.68 };
	char calls[24];
	int n = d->graph->is_traced ? snprintf(calls, sizeof(calls), "%" PRIu64 "x", l->n_calls) : 0;
	double half = FM_MAX(n, 6) * SMALL_PX / 2 + 2, height = LABEL_LINE * (d->graph->is_traced ? 2 : 1);
	for (size_t i = 0; i < FM_ARRAY_LEN(tries); i++) {
		double t = tries[i], u = 1 - t;
		// The curve leaves and arrives upright: its control points stand half-way, above
		// and below the ends.
		double x = a.x * (u * u * u + 3 * u * u * t) + b.x * (3 * u * t * t + t * t * t);
		double middle = (a.y + b.y) / 2;
		double y = a.y * u * u * u + middle * (3 * u * u * t + 3 * u * t * t) + b.y * t * t * t;
		struct rectangle r = { x - half, y - height / 2, x + half, y + height / 2 };
		if (!is_free(d, r))
			continue;
		fm_vec_push(&d->labels, r);
		put_numbers(d, l, x, r.top + LABEL_LINE - 2, "middle");
		return;
	}
}

static void put_tip(struct drawing *d, struct fm_layered_point at, double dx, double dy)
{
	fprintf(d->out, "<path class=\"t\" d=\"M%.1f,%.1fl%.1f,%.1fl%.1f,%.1fz\"/>", at.x, at.y, -7 * dx - 3.5 * dy,
		-7 * dy - 3.5 * dx, 7 * dy, 7 * dx);
}

// From the box's right side back to it.
static void put_loop(struct drawing *d, const struct fm_callgraph_line *l)
{
	const struct fm_layered_box *b = &d->layout.boxes.items[l->from];
	double x = b->x + b->width / 2;
	fprintf(d->out, "<path class=\"l\" d=\"M%.1f,%.1fC%.1f,%.1f %.1f,%.1f %.1f,%.1f\" stroke-width=\"%.2f\"/>", x,
		b->y - 10, x + LOOP_PX, b->y - 22, x + LOOP_PX, b->y + 22, x, b->y + 10,
		0.8 + 3 * sqrt(FM_MIN(l->total, 1.0)));
	put_tip(d, (struct fm_layered_point){ x, b->y + 10 }, -1, 0);
	put_numbers(d, l, x + LOOP_PX - 2, b->y, "start");
}

static void put_amount(const struct drawing *d, double share, int n_decimals)
{
	if (d->graph->unit.len)
		fprintf(d->out, "%.0f ", share * d->graph->whole_s * 1e9);
	else
		fprintf(d->out, "%.*f s", n_decimals, share * d->graph->whole_s);
	fm_xml_put(d->out, d->graph->unit);
}

static void put_line(struct drawing *d, size_t idx)
{
	const struct fm_callgraph_line *l = &d->graph->lines.items[idx];
	const struct fm_layered_line *way = &d->layout.lines.items[idx];
	fputs("<g color=\"", d->out);
	put_color(d->out, l->total);
	fputs("\"><title>", d->out);
	fm_xml_put(d->out, d->graph->boxes.items[l->from].name);
	fputs(" calls ", d->out);
	fm_xml_put(d->out, d->graph->boxes.items[l->to].name);
	fprintf(d->out, ": %.2f%%, ", 100 * l->total);
	put_amount(d, l->total, 6);
	if (d->graph->is_traced)
		fprintf(d->out, ", %" PRIu64 " calls", l->n_calls);
	fputs("</title>", d->out);
	if (l->from == l->to) {
		put_loop(d, l);
	} else {
		const struct fm_layered_point *points = &d->layout.points.items[way->first];
		fprintf(d->out, "<path class=\"l\" stroke-width=\"%.2f\" d=\"M%.1f,%.1f",
			0.8 + 5 * sqrt(FM_MIN(l->total, 1.0)), points[0].x, points[0].y);
		for (size_t i = 1; i < way->n; i++) {
			double middle = (points[i - 1].y + points[i].y) / 2;
			fprintf(d->out, "C%.1f,%.1f %.1f,%.1f %.1f,%.1f", points[i - 1].x, middle, points[i].x, middle,
				points[i].x, points[i].y);
		}
		fputs("\"/>", d->out);
		put_tip(d, points[way->n - 1], 0, way->is_back ? -1 : 1);
		put_label(d, l, points[0], points[1]);
	}
	fputs("</g>\n", d->out);
}

static void put_box(struct drawing *d, size_t idx)
{
	const struct fm_callgraph_box *b = &d->graph->boxes.items[idx];
	const struct fm_layered_box *at = &d->layout.boxes.items[idx];
	double left = at->x - at->width / 2, top = at->y - at->height / 2, room = at->width - 12;
	fputs("<g><title>", d->out);
	fm_xml_put(d->out, b->name);
	fputs("  ", d->out);
	fm_xml_put(d->out, b->place);
	fputs("\ntotal ", d->out);
	put_amount(d, b->total, 6);
	fputs(", own ", d->out);
	put_amount(d, b->own, 6);
	fputs("</title>", d->out);
	fprintf(d->out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"3\" fill=\"", left, top,
		at->width, at->height);
	put_color(d->out, b->total);
	fprintf(d->out, "\"/><text class=\"b\" x=\"%.1f\" y=\"%.1f\">", at->x, top + 16);
	put_fitting(d->out, b->name, room, NAME_PX);
	fprintf(d->out, "</text><text class=\"s\" x=\"%.1f\" y=\"%.1f\">", at->x, top + 29);
	put_fitting(d->out, b->place, room, SMALL_PX);
	fprintf(d->out, "</text><text class=\"b\" x=\"%.1f\" y=\"%.1f\">%.2f%% (%.2f%%)</text>", at->x, top + 44,
		100 * b->total, 100 * b->own);
	if (d->graph->is_traced)
		fprintf(d->out, "<text class=\"b\" x=\"%.1f\" y=\"%.1f\">%" PRIu64 "x</text>", at->x, top + 58,
			b->n_calls);
	fputs("</g>\n", d->out);
}

static void put_head(struct drawing *d, const char *path)
{
	const struct fm_callgraph *g = d->graph;
	double width = FM_MAX(d->layout.width + 2 * MARGIN, LEAST_WIDTH), height = d->layout.height + TOP + MARGIN;
	fprintf(d->out,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" "
		"height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\">\n"
		"<style>text{font:12px "
		"Arial,Helvetica,sans-serif}.b,.s{fill:#fff;text-anchor:middle}.s{font-size:10.5px;"
		"fill-opacity:.85}.l{fill:none;stroke:currentColor}.t{fill:currentColor}.n{font-size:10px;fill:#222;"
		"stroke:#fff;stroke-width:3px;paint-order:stroke}.h{font-size:15px}.i{fill:#555}</style>\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n<text class=\"h\" x=\"%d\" y=\"22\">",
		width, height, width, height, MARGIN);
	fm_xml_put(d->out, fm_label_last_part(fm_str_of(path)));
	fprintf(d->out, "</text>\n<text class=\"i\" x=\"%d\" y=\"40\">", MARGIN);
	put_amount(d, 1, 3);
	fprintf(d->out, " %s; share with (and without) what it calls%s",
		g->is_traced ? "in traced functions" : "of CPU time, sampled", g->is_traced ? ", calls" : "");
	if (g->n_left_out)
		fprintf(d->out, "; %zu lighter functions left out", g->n_left_out);
	fputs("</text>\n", d->out);
}

enum fm_err fm_write_callgraph_svg(FILE *out, struct fm_analysis *a, struct fm_diag *diag)
{
	struct fm_callgraph g;
	enum fm_err err = fm_callgraph_build(&g, a, MAX_BOXES, diag);
	if (err)
		return err;
	if (!g.boxes.n) {
		fm_callgraph_deinit(&g);
		return fm_diag_set(diag, FM_E_NOT_FOUND, "%s has neither calls nor samples to draw a graph of",
				   a->path);
	}
	if (g.lines.n)
		qsort(g.lines.items, g.lines.n, sizeof(*g.lines.items), compare_lines);
	struct drawing d = { .out = out, .graph = &g };
	place(&d);
	put_head(&d, a->path);
	for (size_t i = 0; i < g.lines.n; i++)
		put_line(&d, i);
	for (size_t i = 0; i < g.boxes.n; i++)
		put_box(&d, i);
	fputs("</svg>\n", out);
	fm_vec_deinit(&d.labels);
	fm_layered_deinit(&d.layout);
	fm_callgraph_deinit(&g);
	return FM_OK;
}
