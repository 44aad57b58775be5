// SPDX-License-Identifier: Apache-2.0
#include "image/code_ranges.h"
#include "base/bisect.h"

#include <stdlib.h>
#include <string.h>

// The end of the addresses that a program can have.
#define MAX_ADDRESS (1ull << 56)
// Names are cut here: a symbol may be a whole template library.
#define MAX_NAME_BYTES 4096u
// Ranges that hold an address are looked at up to this many: nested ones by the thousand are
// damage.
#define MAX_NESTED 1000u
#define MAX_LINES (8u << 20)

void fm_code_ranges_deinit(struct fm_code_ranges *r)
{
	if (r->arena.chunks)
		fm_arena_deinit(&r->arena);
	fm_vec_deinit(&r->items);
	fm_vec_deinit(&r->lines);
	fm_vec_deinit(&r->files);
	fm_vec_deinit(&r->max_end);
	*r = (struct fm_code_ranges){ 0 };
}

struct fm_code_range *fm_code_ranges_add(struct fm_code_ranges *r, uint64_t start, uint64_t size, struct fm_str name,
					 uint32_t owner)
{
	if (!size || start >= MAX_ADDRESS || size > MAX_ADDRESS - start)
		return NULL;
	if (r->items.n >= FM_CODE_RANGES_MAX) {
		r->n_left_out++;
		return NULL;
	}
	uint32_t len = FM_MIN(name.len, MAX_NAME_BYTES);
	struct fm_code_range range = {
		.start = start,
		.end = start + size,
		.seq = r->next_seq++,
		.owner = owner,
		.name = { fm_arena_strdup(&r->arena, name.p, len), len },
		.first_line_idx = (uint32_t)r->lines.n,
	};
	fm_vec_push(&r->items, range);
	r->is_sorted = false;
	return &r->items.items[r->items.n - 1];
}

void fm_code_ranges_add_line(struct fm_code_ranges *r, uint64_t addr, uint32_t line, struct fm_str file)
{
	// The range that was added last has the highest number, wherever sorting has put it.
	struct fm_code_range *last = NULL;
	for (size_t i = r->items.n; i-- > 0 && !last;)
		if (r->items.items[i].seq + 1 == r->next_seq)
			last = &r->items.items[i];
	if (!last || r->lines.n >= MAX_LINES || last->first_line_idx + last->n_lines != r->lines.n)
		return;
	// Neighbours are mostly of one file.
	if (!r->files.n || !fm_str_eq(r->files.items[r->files.n - 1], file)) {
		uint32_t len = FM_MIN(file.len, MAX_NAME_BYTES);
		fm_vec_push(&r->files, (struct fm_str){ fm_arena_strdup(&r->arena, file.p, len), len });
	}
	fm_vec_push(&r->lines, (struct fm_code_line){ addr, line, (uint32_t)r->files.n - 1 });
	last->n_lines++;
}

void fm_code_ranges_remove(struct fm_code_ranges *r, uint32_t owner)
{
	size_t kept = 0;
	for (size_t i = 0; i < r->items.n; i++)
		if (r->items.items[i].owner != owner)
			r->items.items[kept++] = r->items.items[i];
	if (kept != r->items.n)
		r->is_sorted = false;
	r->items.n = kept;
}

static int compare(const void *pa, const void *pb)
{
	const struct fm_code_range *a = pa, *b = pb;
	if (a->start != b->start)
		return (a->start > b->start) - (a->start < b->start);
	return (a->seq > b->seq) - (a->seq < b->seq);
}

static void sort(struct fm_code_ranges *r)
{
	if (r->items.n)
		qsort(r->items.items, r->items.n, sizeof(*r->items.items), compare);
	r->max_end.n = 0;
	uint64_t max_end = 0;
	for (size_t i = 0; i < r->items.n; i++) {
		max_end = FM_MAX(max_end, r->items.items[i].end);
		fm_vec_push(&r->max_end, max_end);
	}
	r->is_sorted = true;
}

const struct fm_code_range *fm_code_ranges_find(struct fm_code_ranges *r, uint64_t addr)
{
	if (!r->is_sorted)
		sort(r);
	size_t low = fm_bisect(r->items.n, i, r->items.items[i].start <= addr); // the first that begins behind addr
	const struct fm_code_range *best = NULL;
	for (unsigned n = 0; low-- > 0 && r->max_end.items[low] > addr && n < MAX_NESTED; n++) {
		const struct fm_code_range *range = &r->items.items[low];
		if (addr < range->end && (!best || range->seq > best->seq))
			best = range;
	}
	return best;
}

uint32_t fm_code_ranges_line(const struct fm_code_ranges *r, const struct fm_code_range *range, uint64_t addr,
			     struct fm_str *ret_file)
{
	const struct fm_code_line *best = NULL;
	for (uint32_t i = 0; i < range->n_lines; i++) {
		const struct fm_code_line *line = &r->lines.items[range->first_line_idx + i];
		if (line->addr <= addr && (!best || line->addr >= best->addr))
			best = line;
	}
	*ret_file = best ? r->files.items[best->file] : (struct fm_str){ "", 0 };
	return best ? best->line : 0;
}
