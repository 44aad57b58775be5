// SPDX-License-Identifier: Apache-2.0
// report --tree: the call tree of the user's code, largest first, as far as it matters.
#include <stdlib.h>
#include <string.h>

#include "render/shared/label.h"
#include "render/text/text.h"

#define MIN_SHARE 0.01 // of the CPU time, or of the run's for waiting
#define MIN_DETAILED 0.001
#define MUCH_WAITING 0.05 // of the run: below it the column says nothing
#define MAX_IMPORTED 3    // packages that the row of imports names

struct out {
	const struct fm_text *t;
	uint32_t *first, *next; // by node: its first child, and the next of its parent; 0 = none
	bool has_waiting;
	double least;
};

static double wait_s(const struct fm_weight *w)
{
	return fm_seconds(w->ns[FM_CLASS_WAIT] + w->ns[FM_CLASS_GIL_WAIT]);
}

static double cpu_share(const struct out *o, const struct fm_weight *w)
{
	return fm_text_percent(o->t, w) / 100;
}

static bool is_shown(const struct out *o, const struct fm_weight *w)
{
	return cpu_share(o, w) >= o->least ||
	       (o->has_waiting && wait_s(w) >= FM_MAX(o->least, MUCH_WAITING) * o->t->facts.wall_s);
}

static int compare(const void *pa, const void *pb, void *ctx)
{
	const struct fm_own_node *nodes = ctx, *a = &nodes[*(const uint32_t *)pa], *b = &nodes[*(const uint32_t *)pb];
	uint64_t na = fm_weight_cpu_ns(&a->total), nb = fm_weight_cpu_ns(&b->total);
	if (na != nb)
		return (nb > na) - (nb < na);
	double wa = wait_s(&a->total), wb = wait_s(&b->total);
	return wa != wb ? (wb > wa) - (wb < wa) : (a > b) - (a < b);
}

static void put_figures(const struct out *o, const struct fm_weight *w)
{
	const struct fm_style *s = &o->t->style;
	fprintf(s->out, "%5.1f%% %9.3f s ", 100 * cpu_share(o, w), fm_seconds(fm_weight_cpu_ns(w)));
	if (o->has_waiting && wait_s(w) >= 0.0005)
		fprintf(s->out, "%9.3f s ", wait_s(w));
	else if (o->has_waiting)
		fputs("            ", s->out);
}

static unsigned figures_cells(const struct out *o)
{
	return o->has_waiting ? 31 : 19;
}

static void put_row(const struct out *o, const struct fm_weight *w, const struct fm_buf *prefix, unsigned prefix_cells,
		    const char *branch, const struct fm_buf *name)
{
	const struct fm_style *s = &o->t->style;
	put_figures(o, w);
	fm_style_paint(s, FM_PAINT_DIM);
	fwrite(prefix->data, 1, prefix->len, s->out);
	fputs(branch, s->out);
	fm_style_paint(s, FM_PAINT_NONE);
	unsigned used = figures_cells(o) + prefix_cells + 3;
	fm_style_fit(s, (struct fm_str){ (const char *)name->data, (uint32_t)name->len },
		     o->t->table_width > used + 12 ? o->t->table_width - used : 12, false);
	fputc('\n', s->out);
}

// "imports: numpy 12.1%, json 3.0%"
static void name_imports(const struct out *o, uint32_t id, struct fm_buf *b)
{
	const struct fm_own_tree *tree = &o->t->own_tree;
	unsigned n = 0;
	fm_buf_str(b, "(imports)");
	FM_VEC(uint32_t) children = { 0 };
	for (uint32_t i = o->first[id]; i; i = o->next[i])
		if (tree->nodes.items[i].kind == FM_OWN_PACKAGE)
			fm_vec_push(&children, i);
	if (children.n)
		qsort_r(children.items, children.n, sizeof(*children.items), compare, tree->nodes.items);
	for (size_t i = 0; i < children.n && n < MAX_IMPORTED; i++) {
		const struct fm_own_node *node = &tree->nodes.items[children.items[i]];
		struct fm_str name = tree->packages.items[node->id].name;
		if (cpu_share(o, &node->total) < o->least)
			break;
		fm_buf_printf(b, "%s %.*s %.1f%%", n++ ? "," : "", (int)name.len, name.p,
			      100 * cpu_share(o, &node->total));
	}
	fm_vec_deinit(&children);
}

static void name_node(const struct out *o, uint32_t id, struct fm_buf *b)
{
	const struct fm_own_node *node = &o->t->own_tree.nodes.items[id];
	if (node->kind == FM_OWN_IMPORTS) {
		name_imports(o, id, b);
	} else if (node->kind == FM_OWN_START) {
		fm_buf_str(b, "(Python's own start and end)");
	} else if (node->kind == FM_OWN_PACKAGE) {
		struct fm_str name = o->t->own_tree.packages.items[node->id].name;
		fm_buf_bytes(b, name.p, name.len);
	} else {
		const struct fm_function *f = fm_analysis_function(o->t->a, node->id);
		struct fm_str file = fm_label_file(o->t->a, node->id);
		struct fm_str name = fm_label_function(f);
		fm_buf_bytes(b, name.p, name.len);
		if (file.len && f->line)
			fm_buf_printf(b, " (%.*s:%u)", (int)file.len, file.p, f->line);
		else if (file.len)
			fm_buf_printf(b, " (%.*s)", (int)file.len, file.p);
	}
}

// Of imports only the user's own modules are rows: the packages are in their name.
static bool is_row(const struct out *o, uint32_t id)
{
	const struct fm_own_node *nodes = o->t->own_tree.nodes.items, *node = &nodes[id];
	bool is_imported = node->kind == FM_OWN_PACKAGE && node->parent && nodes[node->parent].kind == FM_OWN_IMPORTS;
	return !is_imported && is_shown(o, &node->total);
}

static void print_below(const struct out *o, uint32_t parent, struct fm_buf *prefix, unsigned depth)
{
	const struct fm_own_node *nodes = o->t->own_tree.nodes.items;
	bool utf8 = o->t->style.has_utf8;
	FM_VEC(uint32_t) rows = { 0 };
	for (uint32_t i = o->first[parent]; i; i = o->next[i])
		if (is_row(o, i))
			fm_vec_push(&rows, i);
	if (rows.n)
		qsort_r(rows.items, rows.n, sizeof(*rows.items), compare, (void *)nodes);
	// What it did itself, where its callees are listed beside.
	bool has_own = rows.n && parent && nodes[parent].kind != FM_OWN_IMPORTS &&
		       cpu_share(o, &nodes[parent].self) >= o->least;
	if (figures_cells(o) + 3 * depth + 20 > o->t->table_width)
		rows.n = 0, has_own = false; // the rest of a deep tree has no room
	for (size_t i = 0; i < rows.n; i++) {
		bool is_last = i + 1 == rows.n && !has_own;
		struct fm_buf name = { 0 };
		name_node(o, rows.items[i], &name);
		put_row(o, &nodes[rows.items[i]].total, prefix, 3 * depth,
			utf8      ? is_last ? "└─ " : "├─ "
			: is_last ? "`- "
				  : "|- ",
			&name);
		fm_buf_deinit(&name);
		size_t len = prefix->len;
		fm_buf_str(prefix, is_last ? "   " : utf8 ? "│  " : "|  ");
		print_below(o, rows.items[i], prefix, depth + 1);
		prefix->len = len;
	}
	if (has_own) {
		struct fm_buf name = { 0 };
		fm_buf_str(&name, nodes[parent].kind == FM_OWN_PACKAGE ? "(itself)" : "(its own lines)");
		put_row(o, &nodes[parent].self, prefix, 3 * depth, utf8 ? "└─ " : "`- ", &name);
		fm_buf_deinit(&name);
	}
	fm_vec_deinit(&rows);
}

void fm_text_call_tree(const struct fm_text *t)
{
	const struct fm_own_tree *tree = &t->own_tree;
	struct out o = { .t = t,
			 .first = fm_alloc(tree->nodes.n * sizeof(uint32_t)),
			 .next = fm_alloc(tree->nodes.n * sizeof(uint32_t)),
			 .least = t->a->options.detailed ? MIN_DETAILED : MIN_SHARE };
	o.has_waiting = wait_s(&tree->nodes.items[0].total) >= MUCH_WAITING * t->facts.wall_s;
	for (uint32_t i = (uint32_t)tree->nodes.n; i-- > 1;) {
		o.next[i] = o.first[tree->nodes.items[i].parent];
		o.first[tree->nodes.items[i].parent] = i;
	}
	fm_text_ending(t);
	fm_text_verdict(t);
	fprintf(t->style.out, "\n   CPU time        %scalls (packages and imports folded; from %g%% on)\n",
		o.has_waiting ? "    waiting " : "", 100 * o.least);
	struct fm_buf name = { 0 }, prefix = { 0 };
	fm_buf_str(&name, "the program");
	fm_buf_reserve(&prefix, 64);
	put_row(&o, &tree->nodes.items[0].total, &prefix, 0, "", &name);
	print_below(&o, 0, &prefix, 0);
	fm_buf_deinit(&name);
	fm_buf_deinit(&prefix);
	free(o.first);
	free(o.next);
}
