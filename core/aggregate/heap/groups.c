// SPDX-License-Identifier: Apache-2.0
#include "aggregate/heap/parts.h"

#include <stdlib.h>
#include <string.h>

#include "aggregate/tree/attribution.h"

// The row of the line that pays for the node, + 1.
static uint32_t line_row(struct fm_heap *h, struct fm_map *index, const struct fm_heap_input *in, uint32_t payer)
{
	if (!payer)
		return 0;
	const struct fm_node *node = &in->view->nodes.items[payer - 1];
	uint32_t file_id = fm_symbolizer_function(in->symbolizer, node->function_id)->file_id;
	bool is_new;
	uint64_t *slot = fm_map_at(index, (uint64_t)file_id << 32 | node->line, &is_new);
	if (is_new) {
		*slot = h->lines.n;
		fm_vec_push(&h->lines, (struct fm_heap_line_row){ .function_id = node->function_id,
								  .file_id = file_id,
								  .line = node->line });
	}
	return (uint32_t)*slot + 1;
}

static void add_chain(struct fm_heap_groups *g, const struct fm_view *view, uint32_t node, uint32_t *seen,
		      uint32_t stamp)
{
	size_t at = g->chains.n;
	fm_vec_push(&g->chains, 0);
	for (uint32_t i = node; i; i = view->nodes.items[i].parent) {
		uint32_t function = view->nodes.items[i].function_id;
		if (seen[function] == stamp)
			continue;
		seen[function] = stamp;
		fm_vec_push(&g->chains, function);
	}
	g->chains.items[at] = (uint32_t)(g->chains.n - at - 1);
	g->chain_of_node[node] = (uint32_t)at + 1;
}

// A comprehension is a function only up to 3.11, and of no interest as such: what it holds is what
// the function around it does. A generator expression may be called from elsewhere.
static uint32_t function_around(const struct fm_heap_input *in, uint32_t node)
{
	uint32_t ret = in->view->nodes.items[node].function_id;
	const struct fm_function *f = fm_symbolizer_function(in->symbolizer, ret);
	for (uint32_t at = in->view->nodes.items[node].parent; at && fm_package_is_comprehension(f);
	     at = in->view->nodes.items[at].parent) {
		const struct fm_function *up =
			fm_symbolizer_function(in->symbolizer, in->view->nodes.items[at].function_id);
		if (up->kind != FM_FRAME_PYTHON)
			continue;
		if (up->file_id != f->file_id)
			break;
		ret = in->view->nodes.items[at].function_id;
		f = up;
	}
	return ret;
}

static void find_self(struct fm_heap_groups *g, const struct fm_heap_input *in, uint32_t node)
{
	uint32_t *self = g->self_of_node[node];
	self[0] = self[1] = FM_NO_ID;
	if (!node)
		return;
	uint32_t payer = fm_attribution_line(&g->payers[node], in->is_detailed);
	if (payer)
		self[0] = function_around(in, payer - 1);
	uint32_t innermost = in->view->nodes.items[node].function_id;
	if (fm_symbolizer_function(in->symbolizer, innermost)->kind != FM_FRAME_PYTHON)
		self[1] = innermost;
}

// Made while a module was imported, below the user's line, or anywhere in a thread that has none: code and constants,
// made once and kept.
static bool is_imported(const struct fm_heap_groups *g, const struct fm_heap_input *in, uint32_t node)
{
	uint32_t user = g->payers[node].user, line_node = user ? user - 1 : 0;
	for (uint32_t at = node; at && at != line_node; at = in->view->nodes.items[at].parent)
		if (fm_package_is_import(fm_symbolizer_function(in->symbolizer, in->view->nodes.items[at].function_id)))
			return true;
	return false;
}

struct builder {
	struct fm_heap_groups *g;
	struct fm_heap *h;
	const struct fm_heap_input *in;
	struct fm_map lines;
	uint32_t *seen, stamp; // by function: the last chain it is in
};

static void take_node(struct builder *b, uint32_t node)
{
	struct fm_heap_groups *g = b->g;
	if (g->chain_of_node[node])
		return;
	g->line_of_node[node] =
		line_row(b->h, &b->lines, b->in, fm_attribution_line(&g->payers[node], b->in->is_detailed));
	find_self(g, b->in, node);
	g->is_imported_of_node[node] = is_imported(g, b->in, node);
	add_chain(g, b->in->view, node, b->seen, ++b->stamp);
}

void fm_heap_groups_init(struct fm_heap_groups *g, struct fm_heap *h, const struct fm_heap_input *in)
{
	const struct fm_view *view = in->view;
	*g = (struct fm_heap_groups){ .payers = fm_attribution_find(in->profile, in->tally, view, in->symbolizer) };
	g->line_of_node = fm_alloc(view->nodes.n * sizeof(uint32_t));
	g->chain_of_node = fm_alloc(view->nodes.n * sizeof(uint32_t));
	g->self_of_node = fm_alloc(view->nodes.n * sizeof(*g->self_of_node));
	g->is_imported_of_node = fm_alloc(view->nodes.n * sizeof(*g->is_imported_of_node));
	struct builder b = { .g = g, .h = h, .in = in };
	b.seen = fm_alloc((fm_symbolizer_n_functions(in->symbolizer) + 1) * sizeof(*b.seen));
	for (size_t i = 0; i < in->log->blocks.n; i++)
		take_node(&b, in->log->blocks.items[i].node);
	for (size_t i = 0; i < in->log->copies.n; i++)
		take_node(&b, in->log->copies.items[i].node);
	for (size_t i = 0; i < in->profile->sites.n; i++)
		take_node(&b, fm_view_node(view, in->profile->sites.items[i].stack_id));
	free(b.seen);
	fm_map_deinit(&b.lines);
}

void fm_heap_groups_deinit(struct fm_heap_groups *g)
{
	free(g->line_of_node);
	free(g->chain_of_node);
	free(g->self_of_node);
	free(g->is_imported_of_node);
	free(g->payers);
	fm_vec_deinit(&g->chains);
}
