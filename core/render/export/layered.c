// SPDX-License-Identifier: Apache-2.0
#include "render/export/layered.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define NONE UINT32_MAX
#define N_ORDER_SWEEPS 12
#define N_PLACE_SWEEPS 24
#define BEND_WIDTH 8.0 // what a line takes up where it passes a layer
#define GAP_PARTS 60.0
#define LEAST_WEIGHT 1e-9 // so that a mean over weightless neighbours is one

// A box, or a place where a long line passes a layer.
struct item {
	uint32_t box; // NONE: a line passes
	uint32_t layer;
	double x, width;
	double wish; // while a layer is sorted or moved
};

struct link { // between items of neighbouring layers
	uint32_t upper, lower;
	double weight;
};

// One part of the graph while it is placed.
struct part {
	struct fm_layered *g;
	double gap_x, gap_y;
	const uint32_t *boxes, *lines; // of the graph
	size_t n_boxes, n_lines;
	FM_VEC(struct item) items;
	FM_VEC(struct link) links;
	FM_VEC(uint32_t) bends; // items along the lines, top to bottom, in the order of `lines`
	uint32_t n_layers;
	uint32_t *order;                               // items by layer, left to right
	uint32_t *layer_start;                         // n_layers + 1 places in order
	uint32_t *rank;                                // by item: its place within its layer
	uint32_t *ups, *up_start, *downs, *down_start; // by item: its links
};

void fm_layered_deinit(struct fm_layered *g)
{
	fm_vec_deinit(&g->boxes);
	fm_vec_deinit(&g->lines);
	fm_vec_deinit(&g->points);
}

// Sorts the numbers 0..n-1 into groups: start has n_groups + 1 entries, the result lists group
// after group.
static uint32_t *group(size_t n, size_t n_groups, uint32_t (*group_of)(const void *, size_t), const void *arg,
		       uint32_t **ret_start)
{
	uint32_t *start = fm_alloc((n_groups + 2) * sizeof(*start)), *list = fm_alloc((n + 1) * sizeof(*list));
	for (size_t i = 0; i < n; i++)
		start[group_of(arg, i) + 2]++;
	for (size_t i = 2; i < n_groups + 2; i++)
		start[i] += start[i - 1];
	for (size_t i = 0; i < n; i++) // start[k + 1] grows to the end of group k
		list[start[group_of(arg, i) + 1]++] = (uint32_t)i;
	*ret_start = start;
	return list;
}

// ---- layers ----

static uint32_t caller_of(const void *g, size_t line)
{
	return ((const struct fm_layered *)g)->lines.items[line].from;
}

// Lines that close a cycle. A walk with its own stack: graphs of recursion are deep.
static void find_back_lines(struct fm_layered *g)
{
	enum { NEW, OPEN, DONE };
	uint32_t *start;
	_cleanup_free_ uint32_t *out = group(g->lines.n, g->boxes.n, caller_of, g, &start);
	_cleanup_free_ uint32_t *at = fm_alloc((g->boxes.n + 1) * sizeof(*at));
	_cleanup_free_ uint8_t *state = fm_alloc(g->boxes.n + 1), *has_caller = fm_alloc(g->boxes.n + 1);
	FM_VEC(uint32_t) stack = { 0 };
	for (size_t i = 0; i < g->lines.n; i++)
		has_caller[g->lines.items[i].to] |= g->lines.items[i].from != g->lines.items[i].to;
	memcpy(at, start, g->boxes.n * sizeof(*at));
	// From where nobody calls first; what is then left is in cycles that nothing leads to.
	for (size_t i = 0; i < 2 * g->boxes.n; i++) {
		uint32_t from = (uint32_t)(i % g->boxes.n);
		if (state[from] != NEW || (i < g->boxes.n && has_caller[from]))
			continue;
		state[from] = OPEN;
		fm_vec_push(&stack, from);
		while (stack.n) {
			uint32_t box = stack.items[stack.n - 1];
			if (at[box] == start[box + 1]) {
				state[box] = DONE;
				stack.n--;
				continue;
			}
			struct fm_layered_line *line = &g->lines.items[out[at[box]++]];
			if (state[line->to] == OPEN) {
				line->is_back = true;
			} else if (state[line->to] == NEW) {
				state[line->to] = OPEN;
				fm_vec_push(&stack, line->to);
			}
		}
	}
	fm_vec_deinit(&stack);
	free(start);
}

// The longest way from a box that nobody calls: at most one pass for each layer that there can be.
static void find_layers(struct fm_layered *g)
{
	bool has_moved = true;
	for (size_t pass = 0; has_moved && pass < g->boxes.n; pass++) {
		has_moved = false;
		for (size_t i = 0; i < g->lines.n; i++) {
			const struct fm_layered_line *line = &g->lines.items[i];
			struct fm_layered_box *from = &g->boxes.items[line->from], *to = &g->boxes.items[line->to];
			if (line->is_back || line->from == line->to || to->layer > from->layer)
				continue;
			to->layer = from->layer + 1;
			has_moved = true;
		}
	}
}

// ---- items ----

static uint32_t add_item(struct part *p, uint32_t box, uint32_t layer, double width)
{
	fm_vec_push(&p->items, (struct item){ .box = box, .layer = layer, .width = width });
	p->n_layers = FM_MAX(p->n_layers, layer + 1);
	return (uint32_t)p->items.n - 1;
}

// Boxes, and for each line the items that it passes from its upper end to its lower one.
static void make_items(struct part *p)
{
	struct fm_layered *g = p->g;
	_cleanup_free_ uint32_t *item_of = fm_alloc((g->boxes.n + 1) * sizeof(*item_of));
	for (size_t i = 0; i < p->n_boxes; i++) {
		const struct fm_layered_box *box = &g->boxes.items[p->boxes[i]];
		item_of[p->boxes[i]] = add_item(p, p->boxes[i], box->layer, box->width + box->room_right);
	}
	for (size_t i = 0; i < p->n_lines; i++) {
		const struct fm_layered_line *line = &g->lines.items[p->lines[i]];
		uint32_t top = item_of[line->is_back ? line->to : line->from];
		uint32_t bottom = item_of[line->is_back ? line->from : line->to], at = top;
		if (line->from == line->to)
			continue;
		fm_vec_push(&p->bends, top);
		for (uint32_t layer = p->items.items[top].layer + 1; layer <= p->items.items[bottom].layer; layer++) {
			bool is_end = layer == p->items.items[bottom].layer;
			uint32_t next = is_end ? bottom : add_item(p, NONE, layer, BEND_WIDTH);
			fm_vec_push(&p->links, (struct link){ at, next, line->weight + LEAST_WEIGHT });
			fm_vec_push(&p->bends, next);
			at = next;
		}
	}
}

static uint32_t layer_of(const void *p, size_t item)
{
	return ((const struct part *)p)->items.items[item].layer;
}

static uint32_t lower_of(const void *p, size_t link)
{
	return ((const struct part *)p)->links.items[link].lower;
}

static uint32_t upper_of(const void *p, size_t link)
{
	return ((const struct part *)p)->links.items[link].upper;
}

// The mean of its neighbours in the layer above or below, by their places in their layers or on the
// page; its own when it has none.
static double neighbours_mean(const struct part *p, uint32_t item, bool is_above, bool is_place)
{
	const uint32_t *start = is_above ? p->up_start : p->down_start, *list = is_above ? p->ups : p->downs;
	double sum = 0, weight = 0;
	for (uint32_t i = start[item]; i < start[item + 1]; i++) {
		const struct link *link = &p->links.items[list[i]];
		uint32_t other = is_above ? link->upper : link->lower;
		uint32_t layer = p->items.items[other].layer;
		double n = p->layer_start[layer + 1] - p->layer_start[layer];
		sum += link->weight * (is_place ? p->items.items[other].x : p->rank[other] / n);
		weight += link->weight;
	}
	if (weight > 0)
		return sum / weight;
	uint32_t layer = p->items.items[item].layer;
	double n = p->layer_start[layer + 1] - p->layer_start[layer];
	return is_place ? p->items.items[item].x : p->rank[item] / n;
}

// A layer is short and nearly in order: insertion keeps equals as they are, which qsort does not
// promise.
static void sort_layer(struct part *p, uint32_t *items, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		uint32_t item = items[i];
		size_t at = i;
		for (; at > 0 && p->items.items[items[at - 1]].wish > p->items.items[item].wish; at--)
			items[at] = items[at - 1];
		items[at] = item;
	}
	for (size_t i = 0; i < n; i++)
		p->rank[items[i]] = (uint32_t)i;
}

// Moves each item of a layer towards its wish and keeps order and gaps: neighbours that would
// overlap become a group, which stands at the mean of its wishes.
static void settle_layer(struct part *p, const uint32_t *items, size_t n)
{
	struct run {
		size_t first, n;
		double sum;   // of wishes, each less its offset in the run
		double width; // from the first item's centre to the last one's
		double x;     // of the first item's centre
	};
	FM_VEC(struct run) runs = { 0 };
	for (size_t i = 0; i < n; i++) {
		double wish = p->items.items[items[i]].wish;
		struct run run = { i, 1, wish, 0, wish };
		while (runs.n) {
			const struct run *before = &runs.items[runs.n - 1];
			double gap =
				(p->items.items[items[run.first - 1]].width + p->items.items[items[run.first]].width) /
					2 +
				p->gap_x;
			double offset = before->width + gap;
			if (run.x >= before->x + offset)
				break;
			run = (struct run){ before->first, before->n + run.n,
					    before->sum + run.sum - offset * (double)run.n, offset + run.width, 0 };
			run.x = run.sum / (double)run.n;
			runs.n--;
		}
		fm_vec_push(&runs, run);
	}
	for (size_t r = 0; r < runs.n; r++) {
		double x = runs.items[r].x;
		for (size_t i = runs.items[r].first; i < runs.items[r].first + runs.items[r].n; i++) {
			if (i > runs.items[r].first)
				x += (p->items.items[items[i - 1]].width + p->items.items[items[i]].width) / 2 +
				     p->gap_x;
			p->items.items[items[i]].x = x;
		}
	}
	fm_vec_deinit(&runs);
}

// Down and up in turn: each layer by the one that was just done.
static void sweep(struct part *p, unsigned n_sweeps, bool is_place)
{
	for (unsigned s = 0; s < n_sweeps; s++)
		for (uint32_t k = 0; k < p->n_layers; k++) {
			bool is_down = s % 2 == 0;
			uint32_t layer = is_down ? k : p->n_layers - 1 - k;
			uint32_t *items = &p->order[p->layer_start[layer]];
			size_t n = p->layer_start[layer + 1] - p->layer_start[layer];
			for (size_t i = 0; i < n; i++)
				p->items.items[items[i]].wish = neighbours_mean(p, items[i], is_down, is_place);
			if (is_place)
				settle_layer(p, items, n);
			else
				sort_layer(p, items, n);
		}
}

// Side by side from the left, then every layer in the middle: where the pulling starts from.
static void pack(struct part *p)
{
	double widest = 0;
	for (int is_second = 0; is_second < 2; is_second++)
		for (uint32_t layer = 0; layer < p->n_layers; layer++) {
			double x = 0;
			for (uint32_t i = p->layer_start[layer]; i < p->layer_start[layer + 1]; i++)
				x += p->items.items[p->order[i]].width + p->gap_x;
			widest = FM_MAX(widest, x);
			x = (widest - x) / 2;
			for (uint32_t i = p->layer_start[layer]; i < p->layer_start[layer + 1]; i++) {
				struct item *item = &p->items.items[p->order[i]];
				item->x = x + item->width / 2;
				x += item->width + p->gap_x;
			}
		}
}

// ---- the page ----

// Writes places into the graph, beginning at x; the part's width and height.
static struct fm_layered_point give_places(struct part *p, double at_x)
{
	struct fm_layered *g = p->g;
	double left = INFINITY, right = -INFINITY, y = 0;
	_cleanup_free_ double *middle = fm_alloc((p->n_layers + 1) * sizeof(*middle));
	_cleanup_free_ double *half = fm_alloc((p->n_layers + 1) * sizeof(*half));
	for (size_t i = 0; i < p->items.n; i++) {
		const struct item *item = &p->items.items[i];
		left = FM_MIN(left, item->x - item->width / 2);
		right = FM_MAX(right, item->x + item->width / 2);
		if (item->box != NONE)
			half[item->layer] = FM_MAX(half[item->layer], g->boxes.items[item->box].height / 2);
	}
	for (uint32_t layer = 0; layer < p->n_layers; layer++) {
		middle[layer] = y + half[layer];
		y += 2 * half[layer] + p->gap_y;
	}
	for (size_t i = 0; i < p->items.n; i++) {
		struct item *item = &p->items.items[i];
		item->x += at_x - left;
		if (item->box == NONE)
			continue;
		struct fm_layered_box *box = &g->boxes.items[item->box];
		item->x -= box->room_right / 2; // the box itself stands at the left of its room
		box->x = item->x;
		box->y = middle[item->layer];
	}
	size_t at = 0; // in bends
	for (size_t i = 0; i < p->n_lines; i++) {
		struct fm_layered_line *line = &g->lines.items[p->lines[i]];
		if (line->from == line->to)
			continue;
		uint32_t upper = g->boxes.items[line->is_back ? line->to : line->from].layer;
		uint32_t lower = g->boxes.items[line->is_back ? line->from : line->to].layer;
		line->first = g->points.n;
		line->n = lower - upper + 1;
		for (size_t k = 0; k < line->n; k++) {
			const struct item *item =
				&p->items.items[p->bends.items[at + (line->is_back ? line->n - 1 - k : k)]];
			double edge = item->layer == upper ? half[upper] : item->layer == lower ? -half[lower] : 0;
			fm_vec_push(&g->points, (struct fm_layered_point){ item->x, middle[item->layer] + edge });
		}
		at += line->n;
	}
	return (struct fm_layered_point){ right - left, y - p->gap_y };
}

static struct fm_layered_point place_part(struct part *p, double at_x)
{
	make_items(p);
	p->order = group(p->items.n, p->n_layers, layer_of, p, &p->layer_start);
	p->ups = group(p->links.n, p->items.n, lower_of, p, &p->up_start);
	p->downs = group(p->links.n, p->items.n, upper_of, p, &p->down_start);
	p->rank = fm_alloc((p->items.n + 1) * sizeof(*p->rank));
	for (uint32_t layer = 0; layer < p->n_layers; layer++)
		for (uint32_t i = p->layer_start[layer]; i < p->layer_start[layer + 1]; i++)
			p->rank[p->order[i]] = i - p->layer_start[layer];
	sweep(p, N_ORDER_SWEEPS, false);
	pack(p);
	sweep(p, N_PLACE_SWEEPS, true);
	struct fm_layered_point size = give_places(p, at_x);
	free(p->order);
	free(p->layer_start);
	free(p->rank);
	free(p->ups);
	free(p->up_start);
	free(p->downs);
	free(p->down_start);
	fm_vec_deinit(&p->items);
	fm_vec_deinit(&p->links);
	fm_vec_deinit(&p->bends);
	return size;
}

// ---- parts ----

static uint32_t find_root(uint32_t *root, uint32_t box)
{
	while (root[box] != box)
		box = root[box] = root[root[box]];
	return box;
}

struct part_key {
	double weight;
	uint32_t root;
};

static int compare_parts(const void *a, const void *b)
{
	const struct part_key *x = a, *y = b;
	if (x->weight != y->weight)
		return x->weight < y->weight ? 1 : -1;
	return (x->root > y->root) - (x->root < y->root);
}

void fm_layered_place(struct fm_layered *g, double gap_x, double gap_y)
{
	g->width = g->height = 0;
	g->points.n = 0;
	if (!g->boxes.n)
		return;
	find_back_lines(g);
	find_layers(g);
	_cleanup_free_ uint32_t *root = fm_alloc(g->boxes.n * sizeof(*root));
	_cleanup_free_ double *weight = fm_alloc(g->boxes.n * sizeof(*weight));
	for (uint32_t i = 0; i < g->boxes.n; i++)
		root[i] = i;
	for (size_t i = 0; i < g->lines.n; i++)
		root[find_root(root, g->lines.items[i].from)] = find_root(root, g->lines.items[i].to);
	for (size_t i = 0; i < g->lines.n; i++) {
		double *of_part = &weight[find_root(root, g->lines.items[i].from)];
		*of_part = FM_MAX(*of_part, g->lines.items[i].weight);
	}
	FM_VEC(struct part_key) parts = { 0 };
	for (uint32_t i = 0; i < g->boxes.n; i++)
		if (find_root(root, i) == i)
			fm_vec_push(&parts, (struct part_key){ weight[i], i });
	if (parts.n)
		qsort(parts.items, parts.n, sizeof(*parts.items), compare_parts);
	FM_VEC(uint32_t) boxes = { 0 };
	FM_VEC(uint32_t) lines = { 0 };
	for (size_t k = 0; k < parts.n; k++) {
		boxes.n = lines.n = 0;
		for (uint32_t i = 0; i < g->boxes.n; i++)
			if (find_root(root, i) == parts.items[k].root)
				fm_vec_push(&boxes, i);
		for (uint32_t i = 0; i < g->lines.n; i++)
			if (find_root(root, g->lines.items[i].from) == parts.items[k].root)
				fm_vec_push(&lines, i);
		struct part p = { .g = g,
				  .gap_x = gap_x,
				  .gap_y = gap_y,
				  .boxes = boxes.items,
				  .n_boxes = boxes.n,
				  .lines = lines.items,
				  .n_lines = lines.n };
		double at_x = k ? g->width + GAP_PARTS : 0;
		struct fm_layered_point size = place_part(&p, at_x);
		g->width = at_x + size.x;
		g->height = FM_MAX(g->height, size.y);
	}
	fm_vec_deinit(&parts);
	fm_vec_deinit(&boxes);
	fm_vec_deinit(&lines);
}
