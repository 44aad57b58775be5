// SPDX-License-Identifier: Apache-2.0
// "Functions by Module": the shares of functions added up by file and folder. A function's share
// here is what its lines are charged (fm_text_share), so that siblings add up to their folder and
// everything to the whole.
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "render/shared/label.h"
#include "render/text/text.h"

#define MIN_PERCENT 1.0
#define MIN_PERCENT_DETAILED 0.1
#define MIN_FUNCTIONS 8 // a flat profile shows that many even so, if they have
#define MIN_PERCENT_FLAT 0.5
#define MIN_PERCENT_REST 0.05 // of what has no row of its own
#define MAX_FUNCTIONS 40
#define LEADER_CELLS 4
#define MUCH_OUTSIDE 15.0 // percent that makes a reader ask

struct node {
	struct fm_str name;
	uint32_t parent, first_child, last_child, next; // 0 = none; 0 is the root itself
	uint32_t function_id;                           // FM_NO_ID for folders and files
	uint32_t depth, n_functions;
	uint64_t ns;
	uint32_t n_small; // of a file: functions that have no row of their own
	uint64_t small_ns;
};

struct tree {
	const struct fm_text *t;
	FM_VEC(struct node) nodes;
	struct fm_str common;     // folder of all the user's files, with its last slash; "" = none
	struct fm_str first_file; // of the user, that has a folder
	bool has_several_files;
	unsigned leaf_end;  // column where the longest name ends
	unsigned max_depth; // what lies deeper is one node: the indentation would take all the room
};

static uint32_t child_of(struct tree *tree, uint32_t parent, struct fm_str name, uint32_t function_id)
{
	for (uint32_t i = tree->nodes.items[parent].first_child; i; i = tree->nodes.items[i].next)
		if (tree->nodes.items[i].function_id == function_id && fm_str_eq(tree->nodes.items[i].name, name))
			return i;
	uint32_t id = (uint32_t)tree->nodes.n;
	fm_vec_push(&tree->nodes, (struct node){ .name = name,
						 .parent = parent,
						 .function_id = function_id,
						 .depth = tree->nodes.items[parent].depth + 1 });
	struct node *p = &tree->nodes.items[parent];
	if (p->last_child)
		tree->nodes.items[p->last_child].next = id;
	else
		p->first_child = id;
	p->last_child = id;
	return id;
}

static uint32_t add_parts(struct tree *tree, uint32_t node, struct fm_str path, char separator)
{
	while (path.len) {
		const char *cut = memchr(path.p, separator, path.len);
		uint32_t len = cut && tree->nodes.items[node].depth + 1 < tree->max_depth ? (uint32_t)(cut - path.p)
											  : path.len;
		if (len)
			node = child_of(tree, node, (struct fm_str){ path.p, len }, FM_NO_ID);
		uint32_t skip = FM_MIN(len + 1, path.len);
		path = (struct fm_str){ path.p + skip, path.len - skip };
	}
	return node;
}

static struct fm_str folder_of(struct fm_str path)
{
	const char *slash = path.len ? memrchr(path.p, '/', path.len) : NULL;
	return (struct fm_str){ path.p, slash ? (uint32_t)(slash - path.p + 1) : 0 };
}

static void find_common(struct tree *tree, struct fm_str file)
{
	struct fm_str folder = folder_of(file);
	if (!folder.len)
		return;
	if (!tree->first_file.len)
		tree->first_file = file, tree->common = folder;
	tree->has_several_files |= !fm_str_eq(tree->first_file, file);
	uint32_t n = 0;
	while (n < FM_MIN(folder.len, tree->common.len) && folder.p[n] == tree->common.p[n])
		n++;
	tree->common = folder_of((struct fm_str){ folder.p, n });
}

static uint32_t place_of(struct tree *tree, uint32_t function_id)
{
	const struct fm_function *f = fm_analysis_function(tree->t->a, function_id);
	if (!fm_summary_is_users(tree->t->summary, function_id)) {
		if (f->kind == FM_FRAME_PYTHON && f->module.len && f->module.p[0] != '<')
			return add_parts(tree, 0, f->module, '.');
		struct fm_str name = f->module.len ? f->module : FM_STR_LIT("(no library)");
		return child_of(tree, 0, name, FM_NO_ID);
	}
	struct fm_str file = f->file;
	uint32_t node = 0;
	if (!folder_of(file).len)
		return child_of(tree, 0, file, FM_NO_ID);
	if (tree->has_several_files && tree->common.len > 1) {
		struct fm_str whole = { tree->common.p, tree->common.len - 1 };
		node = child_of(tree, 0, fm_label_last_part(whole), FM_NO_ID);
	}
	file = (struct fm_str){ file.p + tree->common.len, file.len - tree->common.len };
	return add_parts(tree, node, file, '/');
}

static void add_share(struct tree *tree, uint32_t node, uint64_t ns)
{
	for (uint32_t i = node;; i = tree->nodes.items[i].parent) {
		tree->nodes.items[i].ns += ns;
		tree->nodes.items[i].n_functions++;
		if (!i)
			break;
	}
}

static void add_function(struct tree *tree, const struct fm_function_row *row)
{
	const struct fm_function *f = fm_analysis_function(tree->t->a, row->function_id);
	uint64_t ns = fm_weight_cpu_ns(fm_text_share(tree->t, row));
	uint32_t node = child_of(tree, place_of(tree, row->function_id), f->name, row->function_id);
	unsigned end = 3 * tree->nodes.items[node].depth + fm_style_cells(f->name);
	tree->leaf_end = FM_MAX(tree->leaf_end, end);
	add_share(tree, node, ns);
}

// Files, and modules of libraries: all of their functions' shares.
struct file {
	uint64_t ns;
	bool is_shown; // it has a row
};

struct files {
	struct fm_map index;
	FM_VEC(struct file) v;
};

static struct file *file_of(struct files *files, const struct fm_text *t, uint32_t function_id)
{
	const struct fm_function *f = fm_analysis_function(t->a, function_id);
	bool is_users = fm_summary_is_users(t->summary, function_id), is_new;
	uint64_t key = is_users ? fm_hash_u64(f->file_id) : fm_hash_bytes(f->module.p, f->module.len);
	uint64_t *slot = fm_map_at(&files->index, key ^ is_users, &is_new);
	if (is_new) {
		*slot = files->v.n;
		fm_vec_push(&files->v, (struct file){ 0 });
	}
	return &files->v.items[*slot];
}

// A function too small for a row counts for its file: what stands beside a file is all of it.
static void add_small(struct tree *tree, const struct fm_function_row *row)
{
	uint64_t ns = fm_weight_cpu_ns(fm_text_share(tree->t, row));
	uint32_t node = place_of(tree, row->function_id);
	tree->nodes.items[node].n_small++;
	tree->nodes.items[node].small_ns += ns;
	add_share(tree, node, ns);
}

static double percent(const struct tree *tree, uint64_t ns)
{
	return tree->t->cpu_s > 0 ? 100 * fm_seconds(ns) / tree->t->cpu_s : 0;
}

// "....37.0%", its dots beginning at column `at`.
static void put_share(const struct tree *tree, unsigned at, uint64_t ns)
{
	char share[16];
	int n = snprintf(share, sizeof(share), "%.1f%%", percent(tree, ns));
	unsigned end = tree->leaf_end + LEADER_CELLS + 5;
	fm_style_repeat(&tree->t->style, ".", end > at + (unsigned)n ? end - at - (unsigned)n : 1);
	fputs(share, tree->t->style.out);
}

static void print_children(const struct tree *tree, uint32_t parent, struct fm_buf *prefix);

static int compare_children(const void *pa, const void *pb, void *ctx)
{
	const struct node *a = &((struct node *)ctx)[*(const uint32_t *)pa],
			  *b = &((struct node *)ctx)[*(const uint32_t *)pb];
	return a->ns != b->ns ? (b->ns > a->ns) - (b->ns < a->ns) : (a > b) - (a < b);
}

static void print_leaf(const struct tree *tree, const struct node *node)
{
	const struct fm_style *s = &tree->t->style;
	unsigned at = 3 * node->depth, room = tree->leaf_end - at;
	fm_style_fit(s, node->name, room, false);
	put_share(tree, at + FM_MIN(fm_style_cells(node->name), room), node->ns);
	const struct fm_heap_function_row *memory = fm_text_heap_row(tree->t, node->function_id);
	char text[32];
	if (memory && fm_text_sure_peak(&memory->self) >= 1000000)
		fprintf(s->out, " (%s)", fm_style_bytes(memory->self.peak_bytes, text));
	fputc('\n', s->out);
}

static void put_branch(const struct tree *tree, const struct fm_buf *prefix, bool is_last)
{
	const struct fm_style *s = &tree->t->style;
	fwrite(prefix->data, 1, prefix->len, s->out);
	fputs(s->has_utf8 ? is_last ? "└─ " : "├─ " : is_last ? "`- " : "|- ", s->out);
}

static void print_small(const struct tree *tree, const struct node *file, const struct fm_buf *prefix)
{
	char text[32];
	snprintf(text, sizeof(text), "%u smaller", file->n_small);
	put_branch(tree, prefix, true);
	fputs(text, tree->t->style.out);
	put_share(tree, 3 * (file->depth + 1) + (unsigned)strlen(text), file->small_ns);
	fputc('\n', tree->t->style.out);
}

static void print_node(const struct tree *tree, uint32_t id, struct fm_buf *prefix, bool is_last)
{
	const struct fm_style *s = &tree->t->style;
	const struct node *node = &tree->nodes.items[id];
	size_t len = prefix->len;
	put_branch(tree, prefix, is_last);
	if (node->function_id != FM_NO_ID) {
		print_leaf(tree, node);
		return;
	}
	char tail[64];
	int n = snprintf(tail, sizeof(tail), " (%u func, %.1f%% total)", node->n_functions, percent(tree, node->ns));
	unsigned at = 3 * node->depth, taken = at + (unsigned)n;
	fm_style_fit(s, node->name, s->width > taken + 8 ? s->width - taken : 8, false);
	fprintf(s->out, "%s\n", tail);
	fm_buf_str(prefix, is_last ? "   " : s->has_utf8 ? "│  " : "|  ");
	print_children(tree, id, prefix);
	// Files are set apart by a line that only carries the folders' bars.
	if (node->n_small || tree->nodes.items[node->first_child].function_id != FM_NO_ID) {
		size_t end = prefix->len;
		while (end && prefix->data[end - 1] == ' ')
			end--;
		if (end) {
			fwrite(prefix->data, 1, end, s->out);
			fputc('\n', s->out);
		}
	}
	prefix->len = len;
}

static void print_children(const struct tree *tree, uint32_t parent, struct fm_buf *prefix)
{
	FM_VEC(uint32_t) children = { 0 };
	for (uint32_t i = tree->nodes.items[parent].first_child; i; i = tree->nodes.items[i].next)
		fm_vec_push(&children, i);
	if (children.n)
		qsort_r(children.items, children.n, sizeof(*children.items), compare_children, tree->nodes.items);
	const struct node *node = &tree->nodes.items[parent];
	bool has_small = node->n_small && node->first_child && percent(tree, node->small_ns) >= MIN_PERCENT_REST;
	for (size_t i = 0; i < children.n; i++)
		print_node(tree, children.items[i], prefix, i + 1 == children.n && !has_small);
	if (has_small)
		print_small(tree, node, prefix);
	fm_vec_deinit(&children);
}

static int compare_share(const void *pa, const void *pb, void *ctx)
{
	const struct fm_function_row *a = *(const struct fm_function_row *const *)pa,
				     *b = *(const struct fm_function_row *const *)pb;
	uint64_t na = fm_weight_cpu_ns(fm_text_share(ctx, a)), nb = fm_weight_cpu_ns(fm_text_share(ctx, b));
	return na != nb ? (nb > na) - (nb < na) : (a->function_id > b->function_id) - (a->function_id < b->function_id);
}

static void print_rest(const struct tree *tree, const char *what, uint64_t ns)
{
	if (percent(tree, ns) < MIN_PERCENT_REST)
		return;
	unsigned at = (unsigned)strlen(what);
	fputs(what, tree->t->style.out);
	put_share(tree, at, ns);
	fputc('\n', tree->t->style.out);
}

void fm_text_tree(const struct fm_text *t)
{
	struct tree tree = { .t = t, .common = FM_STR_LIT(""), .max_depth = t->style.width / 6 - 1 };
	FM_VEC(const struct fm_function_row *) rows = { 0 };
	struct files files = { 0 };
	uint64_t all_ns = 0, rest_ns = 0;
	unsigned n_rest = 0;
	for (size_t i = 0; i < t->summary->functions.n; i++) {
		const struct fm_function_row *row = &t->summary->functions.items[i];
		if (fm_text_shows(t, row->function_id) && fm_weight_cpu_ns(fm_text_share(t, row)))
			fm_vec_push(&rows, row);
	}
	if (!rows.n)
		goto out;
	qsort_r(rows.items, rows.n, sizeof(*rows.items), compare_share, (void *)t);
	double least = t->a->options.detailed ? MIN_PERCENT_DETAILED : MIN_PERCENT;
	size_t n_shown = 0;
	for (size_t i = 0; i < rows.n; i++) {
		const struct fm_weight *share = fm_text_share(t, rows.items[i]);
		struct file *file = file_of(&files, t, rows.items[i]->function_id);
		all_ns += fm_weight_cpu_ns(share);
		file->ns += fm_weight_cpu_ns(share);
		if (i < MAX_FUNCTIONS &&
		    fm_text_percent(t, share) >= (i < MIN_FUNCTIONS ? FM_MIN(least, MIN_PERCENT_FLAT) : least)) {
			file->is_shown = true;
			n_shown++;
		}
	}
	if (!n_shown)
		goto out;
	for (size_t i = 0; i < rows.n; i++) {
		struct file *file = file_of(&files, t, rows.items[i]->function_id);
		file->is_shown |= percent(&tree, file->ns) >= MIN_PERCENT;
		if (file->is_shown && fm_summary_is_users(t->summary, rows.items[i]->function_id))
			find_common(&tree, fm_analysis_function(t->a, rows.items[i]->function_id)->file);
	}
	fm_vec_push(&tree.nodes, (struct node){ .function_id = FM_NO_ID });
	for (size_t i = 0; i < rows.n; i++) {
		if (i < n_shown) {
			add_function(&tree, rows.items[i]);
		} else if (file_of(&files, t, rows.items[i]->function_id)->is_shown) {
			add_small(&tree, rows.items[i]);
		} else {
			rest_ns += fm_weight_cpu_ns(fm_text_share(t, rows.items[i]));
			n_rest++;
		}
	}
	// Room for dots, share and memory behind the names.
	tree.leaf_end = FM_MIN(FM_MAX(tree.leaf_end, 30u), t->style.width - LEADER_CELLS - 5 - 10);

	fm_text_heading(t, t->is_all_code ? "(own time; adds up)" : "(with the libraries they call; adds up)",
			"Functions by Module:");
	struct fm_buf prefix = { 0 };
	fm_buf_reserve(&prefix, 16);
	print_children(&tree, 0, &prefix);
	fm_buf_deinit(&prefix);
	char text[64];
	snprintf(text, sizeof(text), "%u smaller function%s of other files", n_rest, n_rest == 1 ? "" : "s");
	print_rest(&tree, text, rest_ns);
	uint64_t whole_ns = fm_weight_cpu_ns(&t->summary->total),
		 outside_ns = whole_ns > all_ns ? whole_ns - all_ns : 0;
	print_rest(&tree, "outside your code", outside_ns);
	if (percent(&tree, outside_ns) >= MUCH_OUTSIDE) {
		fm_style_paint(&t->style, FM_PAINT_DIM);
		fputs("(--detailed shows what that was)\n", t->style.out);
		fm_style_paint(&t->style, FM_PAINT_NONE);
	}
out:
	fm_map_deinit(&files.index);
	fm_vec_deinit(&files.v);
	fm_vec_deinit(&tree.nodes);
	fm_vec_deinit(&rows);
}
