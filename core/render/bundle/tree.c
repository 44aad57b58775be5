// SPDX-License-Identifier: Apache-2.0
// The call tree of the bundle: nodes, what ends in them (cells), calls between functions (edges),
// and the timeline, whose samples name nodes.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/tree/edges.h"
#include "render/bundle/part.h"

struct sum {
	uint32_t node, thread;
	uint8_t class;
	uint64_t n, weight_ns;
};

struct sums {
	FM_VEC(struct sum) items;
};

// What ends in each kept node, summed per thread and class, in order of nodes: a column of rising
// numbers packs to nearly nothing. Sorted by counting: a hash table of all of them would not fit
// the cache.
static void sum_cells(const struct fm_bundle *b, struct sums *ret)
{
	const struct fm_cell *cells = b->a->tally.cells.items;
	size_t n = b->a->tally.cells.n, n_nodes = b->tree.nodes.n;
	*ret = (struct sums){ 0 };
	uint32_t *node = fm_alloc((n + 1) * sizeof(*node)), *order = fm_alloc((n + 1) * sizeof(*order));
	uint32_t *place = fm_alloc((n_nodes + 2) * sizeof(*place));
	for (size_t i = 0; i < n; i++) {
		node[i] = b->tree.kept[fm_view_node(&b->a->view, cells[i].stack_id)];
		place[node[i] + 2]++;
	}
	for (size_t i = 2; i < n_nodes + 2; i++)
		place[i] += place[i - 1];
	for (size_t i = 0; i < n; i++)
		order[place[node[i] + 1]++] = (uint32_t)i;
	// By thread and class: the sum + 1 of the node at hand, or one of a node before it.
	uint32_t *known = fm_alloc((b->a->tally.threads.n + 1) * FM_N_CLASSES * sizeof(*known));
	for (size_t k = 0; k < n; k++) {
		const struct fm_cell *cell = &cells[order[k]];
		uint32_t *sum = &known[(size_t)cell->thread_id * FM_N_CLASSES + cell->class];
		if (!*sum || ret->items.items[*sum - 1].node != node[order[k]]) {
			fm_vec_push(&ret->items, (struct sum){ node[order[k]], cell->thread_id, cell->class, 0, 0 });
			*sum = (uint32_t)ret->items.n;
		}
		ret->items.items[*sum - 1].n += cell->n;
		ret->items.items[*sum - 1].weight_ns += cell->weight_ns;
	}
	free(node);
	free(order);
	free(place);
	free(known);
}

static void write_cells(struct fm_bundle *b, const struct sums *s)
{
	size_t n = s->items.n;
	uint32_t *node = fm_columns_u32(&b->columns, "cell.node", n);
	uint32_t *thread = fm_columns_u32(&b->columns, "cell.thread", n);
	uint8_t *class = fm_columns_u8(&b->columns, "cell.class", n);
	uint32_t *count = fm_columns_u32(&b->columns, "cell.n", n);
	double *weight_s = fm_columns_f64(&b->columns, "cell.weight_s", n);
	for (size_t i = 0; i < n; i++) {
		const struct sum *sum = &s->items.items[i];
		node[i] = sum->node;
		thread[i] = sum->thread;
		class[i] = sum->class;
		count[i] = (uint32_t)FM_MIN(sum->n, (uint64_t)UINT32_MAX);
		weight_s[i] = fm_seconds(sum->weight_ns);
	}
}

static void write_nodes(struct fm_bundle *b)
{
	size_t n = b->tree.nodes.n;
	uint32_t *parent = fm_columns_u32(&b->columns, "node.parent", n);
	uint32_t *function = fm_columns_u32(&b->columns, "node.function", n);
	uint32_t *line = fm_columns_u32(&b->columns, "node.line", n);
	uint8_t *flags = fm_columns_u8(&b->columns, "node.flags", n);
	for (size_t i = 1; i < n; i++) {
		const struct fm_node *node = &b->tree.nodes.items[i];
		parent[i] = node->parent;
		function[i] = fm_bundle_function(b, node->function_id);
		line[i] = node->line;
		flags[i] = node->is_inlined;
	}
}

static void write_edges(struct fm_bundle *b, const struct sums *s)
{
	double *cpu_ns = fm_alloc((b->tree.nodes.n + 1) * sizeof(*cpu_ns));
	for (size_t i = 0; i < s->items.n; i++)
		if (fm_class_is_cpu(s->items.items[i].class))
			cpu_ns[s->items.items[i].node] += (double)s->items.items[i].weight_ns;
	struct fm_edges edges;
	fm_edges_build(&edges, b->tree.nodes.items, b->tree.nodes.n, cpu_ns);
	free(cpu_ns);
	size_t n = FM_MIN(edges.items.n, b->limits->max_edges);
	uint32_t *caller = fm_columns_u32(&b->columns, "edge.caller", n);
	uint32_t *callee = fm_columns_u32(&b->columns, "edge.callee", n);
	double *total_s = fm_columns_f64(&b->columns, "edge.total_s", n);
	for (size_t i = 0; i < n; i++) {
		caller[i] = fm_bundle_function(b, edges.items.items[i].caller);
		callee[i] = fm_bundle_function(b, edges.items.items[i].callee);
		total_s[i] = edges.items.items[i].weight * 1e-9;
	}
	fm_edges_deinit(&edges);
}

void fm_bundle_add_tree(struct fm_bundle *b)
{
	double *shares = fm_prune_shares(&b->a->tally, &b->a->view);
	fm_analysis_add_heap_shares(b->a, b->heap_stacks, b->options->filter, shares);
	struct sums sums;
	// Many threads in the same nodes make more cells than nodes: then fewer nodes have to do.
	for (size_t max_nodes = b->limits->max_nodes;;) {
		fm_prune(&b->tree, &b->a->view, shares, max_nodes);
		sum_cells(b, &sums);
		double surplus = FM_MAX((double)sums.items.n / (double)b->limits->max_cells,
					(double)fm_bundle_sum_heap(b) / (double)b->limits->max_heap_rows);
		if (surplus <= 1 || max_nodes <= 1)
			break;
		// The heaviest nodes are the ones that many threads share: fewer nodes have more
		// cells each.
		max_nodes = (size_t)((double)max_nodes * 0.7 / surplus);
		fm_vec_deinit(&sums.items);
		fm_pruned_deinit(&b->tree);
	}
	free(shares);
	write_nodes(b);
	write_cells(b, &sums);
	write_edges(b, &sums);
	fm_vec_deinit(&sums.items);
}

// To the microsecond, as a binary fraction: the bits that nobody can see would not pack.
static double to_grain(uint64_t ns)
{
	return nearbyint(fm_seconds(ns) * 0x1p20) * 0x1p-20;
}

void fm_bundle_add_samples(struct fm_bundle *b)
{
	const struct fm_timeline *t = &b->timeline;
	double *time_s = fm_columns_f64(&b->columns, "sample.time_s", t->n_runs);
	uint32_t *thread = fm_columns_u32(&b->columns, "sample.thread", t->n_runs);
	uint32_t *node = fm_columns_u32(&b->columns, "sample.node", t->n_runs);
	uint8_t *class = fm_columns_u8(&b->columns, "sample.class", t->n_runs);
	float *weight_s = fm_columns_f32(&b->columns, "sample.weight_s", t->n_runs);
	size_t at = 0;
	for (size_t i = 0; i < t->threads.n; i++)
		for (size_t k = 0; k < t->threads.items[i].runs.n; k++, at++) {
			const struct fm_timeline_run *run = &t->threads.items[i].runs.items[k];
			time_s[at] = to_grain(run->start_ns > b->start_ns ? run->start_ns - b->start_ns : 0);
			thread[at] = (uint32_t)i;
			node[at] = b->tree.kept[run->node];
			class[at] = run->class;
			weight_s[at] = (float)to_grain(run->weight_ns);
		}
}
