// SPDX-License-Identifier: Apache-2.0
#include "aggregate/analysis/zone_spans.h"

#include <stdlib.h>

#define MIN_PIXELS 512u
#define MAX_PIXELS (1u << 15) // 48 bits of time and these fit 64

void fm_zone_spans_deinit(struct fm_zone_spans *s)
{
	fm_vec_deinit(&s->items);
	*s = (struct fm_zone_spans){ 0 };
}

// The first zone from `low` on that begins at or after a time; mostly near, so in growing steps
// first.
static size_t first_at(const struct fm_zone_row *row, size_t low, uint64_t begin_ns)
{
	const struct fm_zone *zones = row->zones.items;
	size_t n = row->zones.n, step = 1;
	while (low < n && zones[FM_MIN(n - 1, low + step - 1)].begin_ns < begin_ns) {
		low += step;
		step *= 2;
	}
	size_t high = FM_MIN(n, low + step);
	low = FM_MIN(low, n);
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (zones[middle].begin_ns < begin_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

// The first zone that reaches into the range: the one before may have begun earlier.
static size_t first_in(const struct fm_zone_row *row, uint64_t from_ns)
{
	size_t i = first_at(row, 0, from_ns);
	return i && fm_zone_end_ns(&row->zones.items[i - 1]) > from_ns ? i - 1 : i;
}

static void sum(const struct fm_zone_row *row, size_t from, size_t to, struct fm_zone_span *span)
{
	const struct fm_zone *zones = row->zones.items, *longest = &zones[from];
	for (size_t i = from; i < to;) {
		const struct fm_zone *candidate = &zones[i];
		if (i % FM_ZONES_IN_BLOCK == 0 && i + FM_ZONES_IN_BLOCK <= to) {
			const struct fm_zone_block *block = &row->blocks.items[i / FM_ZONES_IN_BLOCK];
			candidate = &zones[block->longest];
			span->busy_ns += block->busy_ns;
			i += FM_ZONES_IN_BLOCK;
		} else {
			span->busy_ns += candidate->duration_ns;
			i++;
		}
		if (candidate->duration_ns > longest->duration_ns)
			longest = candidate;
	}
	span->n = to - from;
	span->label = fm_zone_label_of(longest);
}

static void find_in_row(struct fm_zone_spans *ret, const struct fm_zones *z, const struct fm_zone_row *row,
			uint32_t thread_id, uint16_t depth, uint64_t from_ns, uint64_t to_ns, uint32_t pixels)
{
	const struct fm_zone *zones = row->zones.items;
	uint64_t width_ns = to_ns - from_ns, pixel_ns = pixels ? width_ns / pixels : 0;
	for (size_t i = first_in(row, from_ns), next; i < row->zones.n && zones[i].begin_ns < to_ns; i = next) {
		next = i + 1;
		if (zones[i].duration_ns < pixel_ns) {
			uint64_t at_ns = zones[i].begin_ns > from_ns ? zones[i].begin_ns - from_ns : 0;
			uint64_t pixel = at_ns * pixels / width_ns;
			// Rounded up, or a time would lie beyond the end of the pixel it is in.
			next = first_at(row, next, from_ns + ((pixel + 1) * width_ns + pixels - 1) / pixels);
			if (next > i + 1 && zones[next - 1].duration_ns >= pixel_ns) // what begins here and goes on
				next--;
		}
		struct fm_zone_span span = { .thread_id = thread_id,
					     .depth = depth,
					     .begin_ns = z->origin_ns + zones[i].begin_ns,
					     .end_ns = z->origin_ns + fm_zone_end_ns(&zones[next - 1]) };
		sum(row, i, next, &span);
		fm_vec_push(&ret->items, span);
		if (span.n > 1) {
			ret->n_merged += span.n;
			ret->merged_ns += span.busy_ns;
		}
	}
}

// How many zones of a row reach into the range, and their durations.
static void count_in_row(struct fm_zone_spans *ret, const struct fm_zone_row *row, uint64_t from_ns, uint64_t to_ns)
{
	struct fm_zone_span all = { 0 };
	size_t from = first_in(row, from_ns), to = first_at(row, from, to_ns);
	if (from < to)
		sum(row, from, to, &all);
	ret->n_deeper += all.n;
	ret->deeper_ns += all.busy_ns;
}

void fm_zone_spans_find(struct fm_zone_spans *ret, const struct fm_zones *z, const struct fm_zone_range *range)
{
	*ret = (struct fm_zone_spans){ 0 };
	uint64_t from_ns = FM_MAX(range->from_ns, z->begin_ns), to_ns = FM_MIN(range->to_ns, z->end_ns + 1);
	if (!z->n || from_ns >= to_ns)
		return;
	from_ns -= z->origin_ns;
	to_ns = FM_MIN(to_ns - z->origin_ns, (uint64_t)1 << 48);
	for (uint32_t t = 0; t < z->threads.n; t++) {
		if (range->threads && !fm_filter_takes_thread(range->threads, t))
			continue;
		const struct fm_zone_thread *thread = &z->threads.items[t];
		for (size_t d = 0; d < thread->rows.n; d++)
			if (range->max_depth && d >= range->max_depth)
				count_in_row(ret, &thread->rows.items[d], from_ns, to_ns);
			else
				find_in_row(ret, z, &thread->rows.items[d], t, (uint16_t)d, from_ns, to_ns,
					    FM_MIN(range->pixels, MAX_PIXELS));
	}
}

void fm_zone_spans_fit(struct fm_zone_spans *ret, const struct fm_zones *z, struct fm_zone_range range,
		       size_t max_spans, uint32_t *ret_pixels)
{
	range.pixels = z->n > max_spans ? MIN_PIXELS : 0;
	fm_zone_spans_find(ret, z, &range);
	while (range.pixels && range.pixels < MAX_PIXELS) {
		struct fm_zone_spans finer;
		range.pixels *= 2;
		fm_zone_spans_find(&finer, z, &range);
		bool is_too_much = finer.items.n > max_spans;
		fm_zone_spans_deinit(is_too_much ? &finer : ret);
		if (is_too_much) {
			range.pixels /= 2;
			break;
		}
		*ret = finer;
	}
	*ret_pixels = range.pixels;
}
