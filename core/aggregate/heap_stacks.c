#include <stdlib.h>
#include <string.h>

#include "aggregate/heap_parts.h"

static struct fm_heap_stack_row *row_of(struct fm_heap *h, struct fm_map *index, uint32_t stack_id, uint32_t thread_id)
{
	bool is_new;
	uint64_t *at = fm_map_at(index, (uint64_t)stack_id << 32 | thread_id, &is_new);
	if (is_new) {
		*at = h->stacks.n;
		fm_vec_push(&h->stacks, (struct fm_heap_stack_row){ .stack_id = stack_id, .thread_id = thread_id });
	}
	return &h->stacks.items[*at];
}

void fm_heap_stacks(struct fm_heap *h, const struct fm_heap_input *in, const struct fm_heap_marks *marks)
{
	struct fm_map index = { 0 };
	for (size_t i = 0; i < in->log->blocks.n; i++) {
		const struct fm_block *b = &in->log->blocks.items[i];
		struct fm_heap_stack_row *row = row_of(h, &index, b->stack_id, b->thread_id);
		row->alloc_bytes += b->weight;
		if (marks->n_steps_at_peak && fm_block_lives_after(b, marks->n_steps_at_peak))
			row->at_peak_bytes += b->weight;
		if (b->is_leaked)
			row->leaked_bytes += b->weight;
	}
	for (size_t i = 0; i < in->log->copies.n; i++) {
		const struct fm_block *b = &in->log->copies.items[i];
		row_of(h, &index, b->stack_id, b->thread_id)->copy_bytes += b->weight;
	}
	fm_map_deinit(&index);
}
