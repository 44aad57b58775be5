// SPDX-License-Identifier: Apache-2.0
// What was allocated when, for the memory of a range of time: blocks of one node and thread that
// came and went in the same slots of the run are one row. So that the rows are few enough, several
// slots are one for nodes that hold little and have many blocks: how closely times are known goes
// by bytes.
#include <stdlib.h>

#include "render/bundle/part.h"

#define SLOT_BITS 10
#define NEVER ((1u << SLOT_BITS) - 1) // the slot in which what stays is freed
#define THREAD_BITS 24
#define NODE_BITS 18

enum { HELD = 0, LEAKED = 1, COPIED = 2 };

// The parts of a key: they fit, so that equal keys are equal rows.
struct place {
	uint32_t node, thread, born, died;
	uint8_t kind;
};

static uint64_t to_key(const struct place *p)
{
	uint64_t key = p->node;
	key = key << THREAD_BITS | p->thread;
	key = key << SLOT_BITS | p->born;
	key = key << SLOT_BITS | p->died;
	return key << 2 | p->kind;
}

static struct place of_key(uint64_t key)
{
	struct place p = { .kind = key & 3 };
	p.died = (uint32_t)(key >> 2) & NEVER;
	p.born = (uint32_t)(key >> (2 + SLOT_BITS)) & NEVER;
	p.thread = (uint32_t)(key >> (2 + 2 * SLOT_BITS)) & ((1u << THREAD_BITS) - 1);
	p.node = (uint32_t)(key >> (2 + 2 * SLOT_BITS + THREAD_BITS));
	return p;
}

struct slots {
	uint64_t begin_ns, width_ns;
};

static uint32_t slot_of(const struct slots *s, uint64_t time_ns)
{
	uint64_t slot = time_ns > s->begin_ns ? (time_ns - s->begin_ns) / s->width_ns : 0;
	return (uint32_t)FM_MIN(slot, (uint64_t)NEVER - 1);
}

// Two slots become one.
static void coarsen(struct fm_map *rows, struct slots *s)
{
	s->width_ns += FM_MIN(s->width_ns, UINT64_MAX - s->width_ns);
	struct fm_map fewer = { 0 };
	for (size_t i = 0; i < rows->cap; i++) {
		if (!rows->entries[i].used)
			continue;
		struct place p = of_key(rows->entries[i].key);
		p.born /= 2;
		p.died = p.died == NEVER ? NEVER : p.died / 2;
		*fm_map_at(&fewer, to_key(&p), NULL) += rows->entries[i].value;
	}
	fm_map_deinit(rows);
	*rows = fewer;
}

// One block or copy as it lies in the log.
struct item {
	const struct fm_block *block;
	bool is_copy;
	uint32_t node;
};

static size_t n_items(const struct fm_bundle *b)
{
	return b->memory->blocks.n + b->memory->copies.n;
}

static struct item item_at(const struct fm_bundle *b, size_t i)
{
	const struct fm_heap_log *log = b->memory;
	bool is_copy = i >= log->blocks.n;
	const struct fm_block *block = is_copy ? &log->copies.items[i - log->blocks.n] : &log->blocks.items[i];
	return (struct item){ block, is_copy, b->tree.kept[fm_view_node(&b->a->view, block->stack_id)] };
}

// The blocks of one node and thread.
struct pair {
	uint64_t n, bytes;
	unsigned level; // 2^level slots are one
};

struct pairs {
	FM_VEC(struct pair) items;
	struct fm_map index; // (node, thread) -> pair + 1
	double bytes;
};

static struct pair *pair_of(struct pairs *p, uint32_t node, uint32_t thread)
{
	uint64_t *at = fm_map_at(&p->index, (uint64_t)node << 32 | thread, NULL);
	if (!*at) {
		fm_vec_push(&p->items, (struct pair){ 0 });
		*at = p->items.n;
	}
	return &p->items.items[*at - 1];
}

// So many rows at most: blocks that come and go at any time make one for each two slots.
static double rows_at(const struct pair *pair, unsigned level)
{
	double n_slots = FM_MAX(NEVER >> level, 1u);
	return FM_MIN((double)pair->n, n_slots * (n_slots + 1) / 2);
}

// Gives each pair rows by its bytes, so many in all, and the level at which it has as few. Returns
// how many they have then.
static double choose_levels(struct pairs *p, double n_rows)
{
	double sum = 0;
	for (size_t i = 0; i < p->items.n; i++) {
		struct pair *pair = &p->items.items[i];
		double room = 1 + n_rows * (double)pair->bytes / p->bytes;
		for (pair->level = 0; pair->level < SLOT_BITS && rows_at(pair, pair->level) > room;)
			pair->level++;
		sum += rows_at(pair, pair->level);
	}
	return sum;
}

// Many pairs need less than their share: what they leave is the others'.
#define MOST_SCALE 64

static void count_pairs(const struct fm_bundle *b, struct pairs *p)
{
	*p = (struct pairs){ 0 };
	for (size_t i = 0; i < n_items(b); i++) {
		struct item item = item_at(b, i);
		struct pair *pair = pair_of(p, item.node, item.block->thread_id);
		pair->n++;
		pair->bytes += item.block->weight;
		p->bytes += (double)item.block->weight;
	}
	p->bytes = FM_MAX(p->bytes, 1.0);
	double most = (double)b->limits->max_blocks, scale = MOST_SCALE;
	while (choose_levels(p, most * scale) > most && scale > 1.0 / MOST_SCALE)
		scale /= 2;
}

static void pairs_deinit(struct pairs *p)
{
	fm_vec_deinit(&p->items);
	fm_map_deinit(&p->index);
}

// How wide the slots are for most bytes.
static double usual_step_s(const struct pairs *p, const struct slots *s)
{
	double sum = 0;
	for (size_t i = 0; i < p->items.n; i++)
		sum += (double)p->items.items[i].bytes * (double)(1u << p->items.items[i].level);
	return sum / p->bytes * fm_seconds(s->width_ns);
}

// The middle of the slots that are one.
static uint32_t at_level(uint32_t slot, unsigned level)
{
	return FM_MIN((slot >> level << level) + (1u << level >> 1), NEVER - 1);
}

// While adding, twice as many rows as are wanted may be there: a table of all would not fit the
// cache.
static void add_all(const struct fm_bundle *b, struct fm_map *rows, struct pairs *pairs, struct slots *s)
{
	for (size_t i = 0; i < n_items(b); i++) {
		struct item item = item_at(b, i);
		const struct fm_block *block = item.block;
		unsigned level = pair_of(pairs, item.node, block->thread_id)->level;
		bool stays = block->died == FM_NEVER;
		uint64_t died_ns = stays || item.is_copy ? 0 : b->memory->steps.items[block->died].time_ns;
		struct place p = { .node = item.node,
				   .thread = block->thread_id,
				   .born = at_level(slot_of(s, block->born_ns), level),
				   .died = item.is_copy ? 0
					   : stays      ? NEVER
							: at_level(slot_of(s, died_ns), level),
				   .kind = item.is_copy       ? COPIED
					   : block->is_leaked ? LEAKED
							      : HELD };
		uint64_t untouched = item.is_copy ? 0 : block->weight - block->held;
		if (untouched < block->weight || !untouched)
			*fm_map_at(rows, to_key(&p), NULL) += block->weight - untouched;
		if (untouched) { // asked for, and held at no time
			p.died = p.born;
			p.kind = HELD;
			*fm_map_at(rows, to_key(&p), NULL) += untouched;
		}
		while (rows->n > 2 * b->limits->max_blocks && s->width_ns < b->memory->end_ns)
			coarsen(rows, s);
	}
}

static int by_key(const void *a, const void *b)
{
	const struct fm_map_entry *x = a, *y = b;
	return x->key < y->key ? -1 : x->key > y->key;
}

static void write(struct fm_bundle *b, const struct fm_map *rows, const struct slots *s)
{
	FM_VEC(struct fm_map_entry) list = { 0 };
	for (size_t i = 0; i < rows->cap; i++)
		if (rows->entries[i].used)
			fm_vec_push(&list, rows->entries[i]);
	if (list.n)
		qsort(list.items, list.n, sizeof(*list.items), by_key); // in order of nodes they pack best
	uint32_t *node = fm_columns_u32(&b->columns, "block.node", list.n);
	uint32_t *thread = fm_columns_u32(&b->columns, "block.thread", list.n);
	uint16_t *born = fm_columns_u16(&b->columns, "block.born", list.n);
	uint16_t *died = fm_columns_u16(&b->columns, "block.died", list.n);
	uint8_t *kind = fm_columns_u8(&b->columns, "block.kind", list.n);
	double *bytes = fm_columns_f64(&b->columns, "block.bytes", list.n);
	for (size_t i = 0; i < list.n; i++) {
		struct place p = of_key(list.items[i].key);
		node[i] = p.node;
		thread[i] = p.thread;
		born[i] = (uint16_t)p.born;
		died[i] = (uint16_t)(p.died == NEVER ? UINT16_MAX : p.died);
		kind[i] = p.kind;
		bytes[i] = (double)list.items[i].value;
	}
	b->block_grain_s = fm_seconds(s->width_ns);
	fm_vec_deinit(&list);
}

void fm_bundle_add_blocks(struct fm_bundle *b)
{
	const struct fm_heap_log *log = b->memory;
	if (!log->blocks.n && !log->copies.n)
		return;
	// The slots begin with the capture, as all times do that the page knows.
	uint64_t length_ns = log->end_ns > b->start_ns ? log->end_ns - b->start_ns : 0;
	struct slots s = { b->start_ns, length_ns / (NEVER - 1) + 1 };
	struct fm_map rows = { 0 };
	struct pairs pairs = { 0 };
	bool has_room = b->tree.nodes.n <= 1u << NODE_BITS && b->a->profile->threads.n <= 1u << THREAD_BITS;
	if (has_room) {
		count_pairs(b, &pairs);
		add_all(b, &rows, &pairs, &s);
	}
	for (unsigned i = 0; i < SLOT_BITS && rows.n > b->limits->max_blocks; i++) // then there is one slot left
		coarsen(&rows, &s);
	if (has_room && rows.n <= 2 * b->limits->max_blocks) {
		write(b, &rows, &s);
		b->block_step_s = usual_step_s(&pairs, &s);
	}
	pairs_deinit(&pairs);
	fm_map_deinit(&rows);
}
