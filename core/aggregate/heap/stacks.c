// SPDX-License-Identifier: Apache-2.0
// What each stack of a thread allocated, held at the peak, leaked and copied: over the whole
// capture, or a range of it.
#include <stdlib.h>
#include <string.h>

#include "aggregate/heap/parts.h"

static struct fm_heap_stack_row *row_of(struct fm_heap_stack_rows *rows, struct fm_map *index, const struct fm_block *b)
{
	bool is_new;
	uint64_t *at = fm_map_at(index, (uint64_t)b->stack_id << 32 | b->thread_id, &is_new);
	if (is_new) {
		*at = rows->n;
		fm_vec_push(rows, (struct fm_heap_stack_row){ .stack_id = b->stack_id, .thread_id = b->thread_id });
	}
	return &rows->items[*at];
}

static bool is_within(uint64_t time_ns, uint64_t from_ns, uint64_t to_ns)
{
	return time_ns >= from_ns && time_ns < to_ns;
}

static void add_up(struct fm_heap_stack_rows *rows, const struct fm_heap_log *log, uint32_t n_steps_at_peak,
		   uint64_t from_ns, uint64_t to_ns)
{
	struct fm_map index = { 0 };
	for (size_t i = 0; i < log->blocks.n; i++) {
		const struct fm_block *b = &log->blocks.items[i];
		bool is_born = is_within(b->born_ns, from_ns, to_ns);
		bool is_held = n_steps_at_peak && fm_block_lives_after(b, n_steps_at_peak);
		if (!is_born && !is_held)
			continue;
		struct fm_heap_stack_row *row = row_of(rows, &index, b);
		row->alloc_bytes += is_born ? b->weight : 0;
		row->at_peak_bytes += is_held ? b->held : 0;
		row->leaked_bytes += is_born && b->is_leaked ? b->held : 0;
	}
	for (size_t i = 0; i < log->copies.n; i++)
		if (is_within(log->copies.items[i].born_ns, from_ns, to_ns))
			row_of(rows, &index, &log->copies.items[i])->copy_bytes += log->copies.items[i].weight;
	fm_map_deinit(&index);
}

// What is told of the whole run alone.
static void add_counts(struct fm_heap_stack_rows *rows, const struct fm_heap_log *log, uint32_t n_steps_settled)
{
	struct fm_map index = { 0 };
	for (size_t i = 0; i < rows->n; i++)
		*fm_map_at(&index, (uint64_t)rows->items[i].stack_id << 32 | rows->items[i].thread_id, NULL) = i;
	for (size_t i = 0; i < log->blocks.n; i++) {
		const struct fm_block *b = &log->blocks.items[i];
		struct fm_heap_stack_row *row = row_of(rows, &index, b);
		row->n_allocs += fm_block_n(b);
		row->live_bytes += fm_block_lives_after(b, n_steps_settled) ? b->held : 0;
	}
	fm_map_deinit(&index);
}

void fm_heap_stacks(struct fm_heap *h, const struct fm_heap_input *in, const struct fm_heap_marks *marks)
{
	add_up(&h->stacks, in->log, marks->n_steps_at_peak, 0, UINT64_MAX);
	add_counts(&h->stacks, in->log, marks->n_steps_settled);
}

// How many steps were done when most was held within the range; what is held when it begins counts,
// too.
static uint32_t steps_at_peak(const struct fm_heap_log *log, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t live = 0, most = 0;
	uint32_t at_peak = 0, n_before = from_ns ? fm_heap_log_steps_until(log, from_ns - 1) : 0;
	for (uint32_t i = 0; i < log->steps.n && log->steps.items[i].time_ns < to_ns; i++) {
		const struct fm_step *step = &log->steps.items[i];
		uint64_t bytes = log->blocks.items[step->block & ~FM_STEP_DIES].held;
		live = step->block & FM_STEP_DIES ? live - FM_MIN(live, bytes) : live + bytes;
		if (i + 1 >= n_before && live > most) {
			most = live;
			at_peak = i + 1;
		}
	}
	return at_peak;
}

void fm_heap_stacks_within(struct fm_heap_stack_rows *ret, const struct fm_heap_log *log, uint64_t from_ns,
			   uint64_t to_ns)
{
	*ret = (struct fm_heap_stack_rows){ 0 };
	add_up(ret, log, steps_at_peak(log, from_ns, to_ns), from_ns, to_ns);
}
