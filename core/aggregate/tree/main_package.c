// SPDX-License-Identifier: Apache-2.0
#include "aggregate/tree/main_package.h"

#include <stdlib.h>
#include <string.h>

#include "aggregate/tree/package.h"

// "/env/bin/black": a few lines that installers write to call the package.
static bool is_starter(const struct fm_function *f)
{
	const char *slash = f->file.len ? memrchr(f->file.p, '/', f->file.len) : NULL;
	size_t folder = slash ? (size_t)(slash - f->file.p) : 0;
	return folder >= 4 && !memcmp(slash - 4, "/bin", 4) && !memchr(slash, '.', f->file.len - folder);
}

static bool has_file(const struct fm_function *f)
{
	return f->file.len && f->file.p[0] != '<';
}

enum kind { OTHER, WAY, PROGRAM, USERS };

// WAY: what stands between the interpreter and the program.
static enum kind kind_of(const struct fm_function *f)
{
	if (f->kind != FM_FRAME_PYTHON)
		return WAY;
	if (!f->is_library && has_file(f))
		return is_starter(f) ? WAY : USERS;
	if (f->is_ours || fm_package_is_import(f) || fm_package_is_first(f))
		return OTHER;
	return fm_package_name(f).len ? f->is_library ? PROGRAM : OTHER : WAY;
}

// The package that most of the tree is below, of those that nothing but the way leads to.
static struct fm_str find_package(const struct fm_view *view, const struct fm_symbolizer *symbolizer,
				  const uint8_t *kinds)
{
	struct fm_str best = FM_STR_LIT("");
	size_t most = 0;
	uint8_t *is_way = fm_alloc(view->nodes.n + 1);
	is_way[0] = true;
	for (size_t i = 1; i < view->nodes.n; i++) {
		const struct fm_node *node = &view->nodes.items[i];
		uint8_t kind = kinds[node->function_id];
		is_way[i] = is_way[node->parent] && kind == WAY;
		if (!is_way[node->parent] || kind != PROGRAM)
			continue;
		size_t end = i + 1; // a node is followed by all that is below it
		while (end < view->nodes.n && view->nodes.items[end].depth > node->depth)
			end++;
		if (end - i > most)
			most = end - i, best = fm_package_name(fm_symbolizer_function(symbolizer, node->function_id));
	}
	free(is_way);
	return best;
}

bool *fm_main_package_find(const struct fm_view *view, const struct fm_symbolizer *symbolizer)
{
	uint32_t n = fm_symbolizer_n_functions(symbolizer);
	uint8_t *kinds = fm_alloc(n + 1); // asked for by millions of nodes
	struct fm_str package = FM_STR_LIT("");
	bool *ret = NULL, has_users = false;
	for (uint32_t i = 0; i < n; i++)
		kinds[i] = (uint8_t)kind_of(fm_symbolizer_function(symbolizer, i));
	for (size_t i = 1; i < view->nodes.n && !has_users; i++)
		has_users = kinds[view->nodes.items[i].function_id] == USERS;
	if (!has_users)
		package = find_package(view, symbolizer, kinds);
	if (package.len)
		ret = fm_alloc((n + 1) * sizeof(*ret));
	for (uint32_t i = 0; ret && i < n; i++) {
		const struct fm_function *f = fm_symbolizer_function(symbolizer, i);
		ret[i] = f->kind == FM_FRAME_PYTHON && !f->is_ours && fm_str_eq(fm_package_name(f), package);
	}
	free(kinds);
	return ret;
}
