#include "aggregate/tally.h"

#include <stdlib.h>
#include <string.h>

#include "aggregate/sample_queue.h"

// Ids beyond these come from damaged files; growing dense arrays to them would eat the machine.
#define MAX_THREADS (1u << 24)
#define MAX_STACKS (1u << 29)

void fm_tally_deinit(struct fm_tally *t)
{
	fm_vec_deinit(&t->cells);
	fm_vec_deinit(&t->last_cell);
	fm_vec_deinit(&t->threads);
	fm_map_deinit(&t->index);
	fm_heap_log_deinit(&t->memory);
}

// Most stacks have a cell or two. The first RING of each are a ring of their own, walked through; a hash table of all
// would be one more miss of the cache for every one of millions. What a stack has beyond is in the index, and points into
// the ring.
#define RING 4

static uint32_t find_cell(struct fm_tally *t, const struct fm_sample *s, uint32_t last)
{
	const uint32_t fresh = (uint32_t)t->cells.n;
	struct fm_cell cell = { .thread_id = s->thread_id, .stack_id = s->stack_id, .class = s->class, .next = fresh };
	if (last) {
		uint32_t entry = t->cells.items[last - 1].next, at = entry;
		unsigned n = 0;
		do {
			const struct fm_cell *c = &t->cells.items[at];
			if (c->thread_id == s->thread_id && c->class == s->class)
				return at;
			n++;
			at = c->next;
		} while (at != entry);
		if (n < RING) {
			cell.next = t->cells.items[entry].next;
			t->cells.items[entry].next = fresh;
		} else {
			// thread ids stay below 2^24 and classes below 8, so the key is exact
			uint64_t key = (uint64_t)s->stack_id << 32 | s->thread_id << 3 | s->class;
			bool is_new;
			uint64_t *slot = fm_map_at(&t->index, key, &is_new);
			if (!is_new)
				return (uint32_t)*slot;
			*slot = fresh;
			cell.next = entry;
		}
	}
	fm_vec_push(&t->cells, cell);
	return fresh;
}

void fm_tally_add(struct fm_tally *t, const struct fm_sample *s)
{
	if (FM_UNLIKELY(s->class >= FM_N_CLASSES || s->thread_id >= MAX_THREADS || s->stack_id >= MAX_STACKS)) {
		t->n_invalid++;
		return;
	}
	if (FM_UNLIKELY(s->stack_id >= t->last_cell.n))
		fm_vec_grow_to(&t->last_cell, (size_t)s->stack_id + 1);
	if (FM_UNLIKELY(s->thread_id >= t->threads.n))
		fm_vec_grow_to(&t->threads, (size_t)s->thread_id + 1);

	uint32_t *last = &t->last_cell.items[s->stack_id];
	struct fm_cell *cell = *last ? &t->cells.items[*last - 1] : NULL;
	if (FM_UNLIKELY(!cell || cell->thread_id != s->thread_id || cell->class != s->class)) {
		uint32_t found = find_cell(t, s, *last);
		*last = found + 1;
		cell = &t->cells.items[found];
	}
	double weight_s = (double)s->weight_ns * 1e-9;
	cell->n++;
	cell->last_ns = FM_MAX(cell->last_ns, s->time_ns);
	cell->weight_ns += s->weight_ns;
	cell->weight_sq += weight_s * weight_s;

	struct fm_thread_span *span = &t->threads.items[s->thread_id];
	if (!span->n || s->time_ns < span->first_ns)
		span->first_ns = s->time_ns;
	if (s->time_ns > span->last_ns)
		span->last_ns = s->time_ns;
	span->n++;
	t->n_samples++;
}

enum fm_err fm_tally_read(struct fm_tally *t, struct fm_reader *r, const struct fm_witness *witness)
{
	struct fm_event event;
	struct fm_sample_queue *queue = fm_sample_queue_begin(t);
	enum fm_err err;
	while (!(err = fm_reader_next(r, &event))) {
		if (event.type == FM_EVENT_SAMPLE)
			fm_sample_queue_put(queue, &event.sample);
		else if (event.type == FM_EVENT_ALLOC)
			fm_heap_log_alloc(&t->memory, &event.alloc);
		else if (event.type == FM_EVENT_FREE)
			fm_heap_log_free(&t->memory, &event.free);
		if (witness)
			witness->see(witness->ctx, fm_reader_profile(r), &event);
	}
	fm_sample_queue_end(queue);
	return err == FM_E_END ? FM_OK : err;
}
