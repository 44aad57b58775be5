// SPDX-License-Identifier: Apache-2.0
// The call graph for Graphviz, in gprof2dot's manner: boxes with total and own share and calls,
// painted by how hot they are.
#include <inttypes.h>
#include <stdio.h>

#include "base/utf8.h"
#include "render/export/callgraph.h"
#include "render/shared/formats.h"

static void put_quoted(FILE *out, struct fm_str text)
{
	struct fm_buf clean = { 0 };
	fm_utf8_clean(&clean, text);
	for (size_t i = 0; i < clean.len; i++) {
		if (clean.data[i] == '"' || clean.data[i] == '\\')
			fputc('\\', out);
		fputc(clean.data[i], out);
	}
	fm_buf_deinit(&clean);
}

static void put_color(FILE *out, double share)
{
	struct fm_hsv c = fm_callgraph_color(share);
	fprintf(out, "color=\"%.3f %.3f %.3f\"", c.h, c.s, c.v);
}

enum fm_err fm_write_dot(FILE *out, struct fm_analysis *a, struct fm_diag *diag)
{
	struct fm_callgraph g;
	enum fm_err err = fm_callgraph_build(&g, a, 0, diag);
	if (err)
		return err;
	fputs("digraph {\n\tgraph [fontname=Arial, nodesep=0.125, ranksep=0.25];\n"
	      "\tnode [fontname=Arial, fontcolor=white, shape=box, style=filled, height=0, width=0];\n"
	      "\tedge [fontname=Arial];\n",
	      out);
	for (size_t i = 0; i < g.boxes.n; i++) {
		const struct fm_callgraph_box *b = &g.boxes.items[i];
		fprintf(out, "\t%zu [label=\"", i);
		put_quoted(out, b->name);
		fprintf(out, "\\n%.2f%%\\n(%.2f%%)", 100 * b->total, 100 * b->own);
		if (g.is_traced)
			fprintf(out, "\\n%" PRIu64 "x", b->n_calls);
		fputs("\", ", out);
		put_color(out, b->total);
		fputs("];\n", out);
	}
	for (size_t i = 0; i < g.lines.n; i++) {
		const struct fm_callgraph_line *l = &g.lines.items[i];
		fprintf(out, "\t%u -> %u [label=\"%.2f%%", l->from, l->to, 100 * l->total);
		if (g.is_traced)
			fprintf(out, "\\n%" PRIu64 "x", l->n_calls);
		fputs("\", ", out);
		put_color(out, l->total);
		fputs("];\n", out);
	}
	fputs("}\n", out);
	fm_callgraph_deinit(&g);
	return FM_OK;
}
