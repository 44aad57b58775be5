// SPDX-License-Identifier: Apache-2.0
#include "render/export/sampled_calls.h"

#include <stdlib.h>

#include "aggregate/analysis/leaves.h"
#include "base/utf8.h"
#include "render/shared/label.h"

struct building {
	struct fm_sampled_calls *c;
	const struct fm_analysis *a;
	struct fm_intern keys;       // place, line and name -> index of functions
	uint32_t *function_of;       // + 1, by function id
	struct fm_map edge_of;       // caller and callee -> index of edges
	FM_VEC(size_t) function_met; // by index: the leaf + 1 in which it was met last
	FM_VEC(size_t) edge_met;
};

static struct fm_str keep(struct building *b, struct fm_str text)
{
	struct fm_buf clean = { 0 };
	fm_utf8_clean(&clean, text);
	char *copy = fm_arena_strdup(&b->c->strings, (const char *)clean.data, clean.len);
	struct fm_str ret = { copy, (uint32_t)clean.len };
	fm_buf_deinit(&clean);
	return ret;
}

static uint32_t meet_function(struct building *b, uint32_t function_id)
{
	uint32_t *index1 = &b->function_of[function_id];
	if (*index1)
		return *index1 - 1;
	const struct fm_function *f = fm_analysis_function(b->a, function_id);
	struct fm_str file = f->file.len ? f->file : f->path.len ? f->path : FM_STR_LIT("~");
	struct fm_sampled_function entry = { keep(b, file), keep(b, fm_label_function(f)), f->line };
	struct fm_buf key = { 0 };
	bool is_new;
	fm_buf_printf(&key, "%u %u ", entry.line, entry.file.len);
	fm_buf_bytes(&key, entry.file.p, entry.file.len);
	fm_buf_bytes(&key, entry.name.p, entry.name.len);
	*index1 = fm_intern_id(&b->keys, (struct fm_str){ (const char *)key.data, (uint32_t)key.len }, &is_new) + 1;
	fm_buf_deinit(&key);
	if (is_new) {
		fm_vec_push(&b->c->functions, entry);
		fm_vec_push(&b->function_met, 0);
	}
	return *index1 - 1;
}

static uint32_t meet_edge(struct building *b, uint32_t caller, uint32_t callee)
{
	bool is_new;
	uint64_t *edge = fm_map_at(&b->edge_of, (uint64_t)caller << 32 | callee, &is_new);
	if (is_new) {
		*edge = b->c->edges.n;
		fm_vec_push(&b->c->edges, (struct fm_sampled_edge){ .caller = caller, .callee = callee });
		fm_vec_push(&b->edge_met, 0);
	}
	return (uint32_t)*edge;
}

static void add(struct fm_sampled_sum *sum, size_t *met, size_t turn, const struct fm_leaf *leaf, bool is_innermost)
{
	if (is_innermost)
		sum->own_ns += leaf->weight_ns;
	if (*met == turn)
		return;
	*met = turn;
	sum->n += leaf->n;
	sum->total_ns += leaf->weight_ns;
}

static void add_leaf(struct building *b, const struct fm_leaf *leaf, size_t turn)
{
	const struct fm_node *nodes = b->a->view.nodes.items;
	for (uint32_t node = leaf->node; node; node = nodes[node].parent) {
		uint32_t callee = meet_function(b, nodes[node].function_id);
		add(&b->c->functions.items[callee].sum, &b->function_met.items[callee], turn, leaf, node == leaf->node);
		if (!nodes[node].parent)
			continue;
		uint32_t caller = meet_function(b, nodes[nodes[node].parent].function_id);
		uint32_t edge = meet_edge(b, caller, callee);
		add(&b->c->edges.items[edge].sum, &b->edge_met.items[edge], turn, leaf, node == leaf->node);
	}
}

void fm_sampled_calls_build(struct fm_sampled_calls *c, const struct fm_analysis *a)
{
	struct building b = { .c = c, .a = a };
	struct fm_view_options options = a->options;
	options.threads = options.processes = false;
	*c = (struct fm_sampled_calls){ 0 };
	fm_arena_init(&c->strings);
	b.function_of = fm_alloc((fm_symbolizer_n_functions(a->symbolizer) + 1) * sizeof(*b.function_of));
	struct fm_leaves leaves;
	fm_leaves_of(&leaves, a, &options);
	for (size_t i = 0; i < leaves.items.n; i++)
		add_leaf(&b, &leaves.items.items[i], i + 1);
	fm_leaves_deinit(&leaves);
	fm_intern_deinit(&b.keys);
	fm_map_deinit(&b.edge_of);
	fm_vec_deinit(&b.function_met);
	fm_vec_deinit(&b.edge_met);
	free(b.function_of);
}

void fm_sampled_calls_deinit(struct fm_sampled_calls *c)
{
	fm_vec_deinit(&c->functions);
	fm_vec_deinit(&c->edges);
	fm_arena_deinit(&c->strings);
}
