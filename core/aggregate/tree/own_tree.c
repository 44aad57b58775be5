// SPDX-License-Identifier: Apache-2.0
#include "aggregate/tree/own_tree.h"

#include <stdlib.h>
#include <string.h>

#include "aggregate/tree/attribution.h"
#include "base/compiler.h"
#include "base/hash.h"

enum { NOBODYS = FM_NO_ID };

struct build {
	struct fm_own_tree *t;
	const struct fm_symbolizer *symbolizer;
	const struct fm_summary *summary;
	struct fm_map children; // (parent, kind, id) -> node
	uint32_t *package_of;   // by function id; NOBODYS for those that stay with their caller
	uint8_t *roles;         // by function id: fm_own_role
};

// What dataclasses, attrs and namedtuple write and execute.
static bool is_generated(const struct fm_function *f)
{
	return f->kind == FM_FRAME_PYTHON &&
	       (fm_str_eq(f->file, FM_STR_LIT("<string>")) || fm_str_starts_with(f->file, "<attrs generated "));
}

uint8_t fm_own_roles(const struct fm_summary *summary, const struct fm_symbolizer *symbolizer, uint32_t function_id)
{
	const struct fm_function *f = fm_symbolizer_function(symbolizer, function_id);
	bool is_python = f->kind == FM_FRAME_PYTHON, is_importlib = fm_package_is_importlib(f);
	uint8_t roles = 0;
	if (is_python ? fm_summary_is_users(summary, function_id) : fm_package_is_none(f))
		roles |= FM_OWN_IS_USERS | (fm_package_is_comprehension(f) ? FM_OWN_IS_COMPREHENSION : 0);
	if (fm_package_is_import(f))
		roles |= FM_OWN_IS_IMPORT;
	if (!is_python || fm_str_eq(f->name, FM_STR_LIT("<module>")))
		roles |= FM_OWN_IS_MODULE;
	if (is_importlib || fm_package_is_interpreter(f) || fm_package_is_first(f))
		roles |= FM_OWN_BEGINS;
	if (is_generated(f))
		roles |= FM_OWN_IS_GENERATED;
	return roles;
}

struct fm_str fm_own_package_name(const struct fm_function *f, uint8_t roles)
{
	return roles & FM_OWN_IS_USERS || fm_package_is_importlib(f) ? FM_STR_LIT("") : fm_package_name(f);
}

static uint32_t package_id(struct build *b, struct fm_str name)
{
	bool is_new;
	uint32_t id = fm_intern_id(&b->t->names, name, &is_new);
	if (is_new)
		fm_vec_push(&b->t->packages, (struct fm_own_package){ .name = fm_intern_get(&b->t->names, id) });
	return id;
}

static void sort_functions(struct build *b)
{
	uint32_t n = fm_symbolizer_n_functions(b->symbolizer);
	b->package_of = fm_alloc((n + 1) * sizeof(*b->package_of));
	b->roles = fm_alloc(n + 1);
	for (uint32_t i = 0; i < n; i++) {
		b->roles[i] = fm_own_roles(b->summary, b->symbolizer, i);
		struct fm_str name = fm_own_package_name(fm_symbolizer_function(b->symbolizer, i), b->roles[i]);
		b->package_of[i] = name.len ? package_id(b, name) : NOBODYS;
	}
}

static uint32_t child(struct build *b, uint32_t parent, uint8_t kind, uint32_t id)
{
	bool is_new;
	// Fewer than 2^30 nodes: they are 100 bytes each.
	uint64_t *slot = fm_map_at(&b->children, (uint64_t)parent << 34 | (uint64_t)id << 2 | kind, &is_new);
	if (is_new) {
		*slot = b->t->nodes.n;
		fm_vec_push(&b->t->nodes, (struct fm_own_node){ .parent = parent, .kind = kind, .id = id });
	}
	return (uint32_t)*slot;
}

// The node of that function or package among those that led here without leaving the user's code
// (or, for packages, without coming back to it); 0 = none.
static uint32_t among_callers(const struct build *b, uint32_t at, uint8_t kind, uint32_t id)
{
	for (; at; at = b->t->nodes.items[at].parent) {
		const struct fm_own_node *node = &b->t->nodes.items[at];
		if (node->kind == kind && node->id == id)
			return at;
		if (node->kind != kind)
			return 0;
	}
	return 0;
}

static bool is_importing(const struct build *b, uint32_t at)
{
	const struct fm_own_node *nodes = b->t->nodes.items;
	return at && (nodes[at].kind == FM_OWN_IMPORTS || (nodes[at].kind == FM_OWN_PACKAGE && nodes[at].parent &&
							   nodes[nodes[at].parent].kind == FM_OWN_IMPORTS));
}

static uint32_t place(struct build *b, uint32_t parent, uint32_t function_id)
{
	uint8_t roles = b->roles[function_id];
	if (roles & FM_OWN_IS_COMPREHENSION && parent && b->t->nodes.items[parent].kind == FM_OWN_FUNCTION)
		return parent;
	if (roles & FM_OWN_IS_USERS) {
		uint32_t again = among_callers(b, parent, FM_OWN_FUNCTION, function_id);
		return again ? again : child(b, parent, FM_OWN_FUNCTION, function_id);
	}
	if (!parent && roles & FM_OWN_BEGINS)
		return child(b, 0, FM_OWN_START, 0);
	if (parent && b->t->nodes.items[parent].kind == FM_OWN_START)
		return parent;
	if (roles & FM_OWN_IS_IMPORT)
		return is_importing(b, parent) ? parent : child(b, parent, FM_OWN_IMPORTS, 0);
	uint32_t package = b->package_of[function_id];
	if (package == NOBODYS || (parent && roles & FM_OWN_IS_GENERATED))
		return parent;
	// Of an import, the package that was asked for. A library's loader or finder (pytest's, which
	// rewrites asserts) is part of the import, and not what is imported.
	if (is_importing(b, parent))
		return b->t->nodes.items[parent].kind == FM_OWN_PACKAGE || !(roles & FM_OWN_IS_MODULE)
			       ? parent
			       : child(b, parent, FM_OWN_PACKAGE, package);
	uint32_t again = among_callers(b, parent, FM_OWN_PACKAGE, package);
	return again ? again : child(b, parent, FM_OWN_PACKAGE, package);
}

static void add_cells(struct build *b, const struct fm_tally *tally, const struct fm_view *view,
		      const uint32_t *node_of)
{
	struct fm_own_node *nodes = b->t->nodes.items;
	for (size_t i = 0; i < tally->cells.n; i++) {
		const struct fm_cell *cell = &tally->cells.items[i];
		struct fm_weight *w = &nodes[node_of[fm_view_node(view, cell->stack_id)]].self;
		w->ns[cell->class] += cell->weight_ns;
		if (fm_class_is_cpu(cell->class)) {
			w->n += cell->n;
			w->cpu_sq += cell->weight_sq;
		}
	}
	for (size_t i = b->t->nodes.n; i-- > 0;) {
		fm_weight_add(&nodes[i].total, &nodes[i].self);
		if (i)
			fm_weight_add(&nodes[nodes[i].parent].total, &nodes[i].total);
	}
}

// Packages and imports may be several times on a stack, with the user's code between.
static bool is_outermost(const struct fm_own_tree *t, uint32_t at)
{
	const struct fm_own_node *node = &t->nodes.items[at];
	for (uint32_t up = node->parent; up; up = t->nodes.items[up].parent)
		if (t->nodes.items[up].kind == node->kind && t->nodes.items[up].id == node->id)
			return false;
	return true;
}

static bool is_of_import(const struct fm_own_tree *t, uint32_t at)
{
	uint32_t parent = t->nodes.items[at].parent;
	return parent && t->nodes.items[parent].kind == FM_OWN_IMPORTS;
}

static void add_packages(struct fm_own_tree *t)
{
	for (uint32_t i = 1; i < t->nodes.n; i++) {
		const struct fm_own_node *node = &t->nodes.items[i];
		if (node->kind == FM_OWN_FUNCTION || node->kind == FM_OWN_START || !is_outermost(t, i))
			continue;
		if (node->kind == FM_OWN_IMPORTS)
			fm_weight_add(&t->imports, &node->total);
		else if (!is_of_import(t, i))
			fm_weight_add(&t->packages.items[node->id].total, &node->total);
	}
}

void fm_own_tree_build(struct fm_own_tree *t, const struct fm_tally *tally, const struct fm_view *view,
		       const struct fm_symbolizer *symbolizer, const struct fm_summary *summary)
{
	*t = (struct fm_own_tree){ 0 };
	fm_vec_push(&t->nodes, (struct fm_own_node){ 0 });
	struct build b = { .t = t, .symbolizer = symbolizer, .summary = summary };
	sort_functions(&b);
	uint32_t *node_of = fm_alloc((view->nodes.n + 1) * sizeof(*node_of));
	for (size_t i = 1; i < view->nodes.n; i++)
		node_of[i] = place(&b, node_of[view->nodes.items[i].parent], view->nodes.items[i].function_id);
	add_cells(&b, tally, view, node_of);
	add_packages(t);
	free(node_of);
	free(b.package_of);
	free(b.roles);
	fm_map_deinit(&b.children);
}

void fm_own_tree_deinit(struct fm_own_tree *t)
{
	fm_vec_deinit(&t->nodes);
	fm_vec_deinit(&t->packages);
	fm_intern_deinit(&t->names);
	*t = (struct fm_own_tree){ 0 };
}
