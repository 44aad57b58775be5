// SPDX-License-Identifier: Apache-2.0
#include "aggregate/tally/tally.h"

#include <stdlib.h>
#include <string.h>

#include "aggregate/tally/weight.h"

// Ids beyond these come from damaged files; growing dense arrays to them would eat the machine.
#define MAX_THREADS (1u << 24)
#define MAX_STACKS (1u << 29)

void fm_tally_deinit(struct fm_tally *t)
{
	fm_vec_deinit(&t->cells);
	fm_vec_deinit(&t->threads);
	fm_vec_deinit(&t->cpus);
	free(t->slots);
	fm_heap_log_deinit(&t->memory);
}

#define LEAST_SLOTS 1024u

// Thread ids stay below 2^24 and classes below 8: nothing overlaps.
static uint64_t hash_of(uint32_t thread_id, uint32_t stack_id, uint8_t class)
{
	return fm_hash_u64((uint64_t)stack_id << 32 | (uint64_t)thread_id << 3 | class);
}

static uint64_t hash_of_sample(const struct fm_sample *s)
{
	return hash_of(s->thread_id, s->stack_id, s->class);
}

static void make_slots(struct fm_tally *t, size_t n_slots)
{
	free(t->slots);
	t->n_slots = n_slots;
	t->slots = fm_alloc(t->n_slots * sizeof(*t->slots));
	for (size_t i = 0; i < t->cells.n; i++) {
		const struct fm_cell *cell = &t->cells.items[i];
		uint64_t hash = hash_of(cell->thread_id, cell->stack_id, cell->class);
		size_t at = hash & (t->n_slots - 1);
		while (t->slots[at].cell)
			at = (at + 1) & (t->n_slots - 1);
		t->slots[at] = (struct fm_cell_slot){ (uint32_t)i + 1, (uint32_t)(hash >> 32) };
	}
}

static struct fm_cell *cell_of(struct fm_tally *t, const struct fm_sample *s)
{
	if (FM_UNLIKELY(t->cells.n * 4 >= t->n_slots * 3))
		make_slots(t, t->n_slots ? t->n_slots * 2 : LEAST_SLOTS);
	uint64_t hash = hash_of_sample(s);
	uint32_t tag = (uint32_t)(hash >> 32);
	for (size_t at = hash & (t->n_slots - 1);; at = (at + 1) & (t->n_slots - 1)) {
		struct fm_cell_slot *slot = &t->slots[at];
		if (!slot->cell) {
			fm_vec_push(&t->cells, (struct fm_cell){ .thread_id = s->thread_id,
								 .stack_id = s->stack_id,
								 .class = s->class });
			*slot = (struct fm_cell_slot){ (uint32_t)t->cells.n, tag };
			return &t->cells.items[t->cells.n - 1];
		}
		struct fm_cell *cell = &t->cells.items[slot->cell - 1];
		if (slot->tag == tag && cell->stack_id == s->stack_id && cell->thread_id == s->thread_id &&
		    cell->class == s->class)
			return cell;
	}
}

static void fetch_slot(const struct fm_tally *t, const struct fm_sample *s)
{
	if (t->n_slots)
		__builtin_prefetch(&t->slots[hash_of_sample(s) & (t->n_slots - 1)]);
}

// Some time after its slot.
static void fetch_cell(const struct fm_tally *t, const struct fm_sample *s)
{
	const struct fm_cell_slot *slot = t->n_slots ? &t->slots[hash_of_sample(s) & (t->n_slots - 1)] : NULL;
	if (slot && slot->cell)
		__builtin_prefetch(&t->cells.items[slot->cell - 1], 1);
}

void fm_tally_add(struct fm_tally *t, const struct fm_sample *s, uint32_t n)
{
	if (FM_UNLIKELY(s->class >= FM_N_CLASSES || s->thread_id >= MAX_THREADS || s->stack_id >= MAX_STACKS)) {
		t->n_invalid += n;
		return;
	}
	if (FM_UNLIKELY(s->thread_id >= t->threads.n))
		fm_vec_grow_to(&t->threads, (size_t)s->thread_id + 1);

	struct fm_cell *cell = cell_of(t, s);
	uint64_t first_ns = s->time_ns, last_ns = s->time_ns, weight_ns = 0;
	bool is_cpu = fm_class_is_cpu(s->class);
	for (uint32_t i = 0; i < n; i++) {
		if (is_cpu) {
			fm_vec_grow_to(&t->cpus, (size_t)s[i].cpu + 1);
			t->cpus.items[s[i].cpu].n++;
			t->cpus.items[s[i].cpu].weight_ns += s[i].weight_ns;
		}
		double weight_s = (double)s[i].weight_ns * 1e-9;
		weight_ns += s[i].weight_ns;
		cell->weight_sq += weight_s * weight_s;
		t->heavy_sq += fm_weight_is_gap(s[i].weight_ns, s->class) ? weight_s * weight_s : 0;
		first_ns = FM_MIN(first_ns, s[i].time_ns);
		last_ns = FM_MAX(last_ns, s[i].time_ns);
	}
	cell->n += n;
	cell->weight_ns += weight_ns;
	cell->last_ns = FM_MAX(cell->last_ns, last_ns);

	struct fm_thread_span *span = &t->threads.items[s->thread_id];
	span->first_ns = span->n ? FM_MIN(span->first_ns, first_ns) : first_ns;
	span->last_ns = FM_MAX(span->last_ns, last_ns);
	span->n += n;
	if (is_cpu) {
		span->cpu_ns += weight_ns;
	} else {
		span->wait_ns += weight_ns;
		span->n_waits += n;
	}
	t->n_samples += n;
}

void fm_tally_move(struct fm_tally *t, const struct fm_sample *s, uint32_t stack_id)
{
	double weight_s = (double)s->weight_ns * 1e-9;
	struct fm_cell *from = cell_of(t, s);
	if (!from->n || from->weight_ns < s->weight_ns)
		return; // the file has changed since
	from->n--;
	from->weight_ns -= s->weight_ns;
	from->weight_sq = from->n ? FM_MAX(from->weight_sq - weight_s * weight_s, 0) : 0;
	struct fm_sample moved = *s;
	moved.stack_id = stack_id;
	struct fm_cell *to = cell_of(t, &moved);
	to->n++;
	to->weight_ns += s->weight_ns;
	to->weight_sq += weight_s * weight_s;
	to->last_ns = FM_MAX(to->last_ns, s->time_ns);
}

void fm_tally_drop_empty(struct fm_tally *t)
{
	size_t kept = 0;
	for (size_t i = 0; i < t->cells.n; i++)
		if (t->cells.items[i].n)
			t->cells.items[kept++] = t->cells.items[i];
	t->cells.n = kept;
	if (t->n_slots)
		make_slots(t, t->n_slots);
}

#define PIECE 1024
#define AHEAD 16 // runs that are fetched while those before them are counted

static bool is_same(const struct fm_sample *a, const struct fm_sample *b)
{
	return a->stack_id == b->stack_id && a->thread_id == b->thread_id && a->class == b->class;
}

static void add_piece(struct fm_tally *t, const struct fm_sample *s, uint32_t n_samples)
{
	uint32_t first[PIECE + 1], n = 0; // of each run of the same
	for (uint32_t i = 0; i < n_samples; i++)
		if (!i || !is_same(&s[i - 1], &s[i]))
			first[n++] = i;
	first[n] = n_samples;
	for (uint32_t k = 0; k < n; k++) {
		if (k + AHEAD < n)
			fetch_slot(t, &s[first[k + AHEAD]]);
		if (k + AHEAD / 2 < n)
			fetch_cell(t, &s[first[k + AHEAD / 2]]);
		fm_tally_add(t, &s[first[k]], first[k + 1] - first[k]);
	}
}

void fm_tally_add_all(struct fm_tally *t, const struct fm_sample *samples, uint32_t n)
{
	for (uint32_t i = 0; i < n; i += PIECE)
		add_piece(t, samples + i, FM_MIN(n - i, (uint32_t)PIECE));
}

static void on_samples(void *ctx, const struct fm_sample *samples, uint32_t n)
{
	fm_tally_add_all(ctx, samples, n);
}

static void on_event(void *ctx, const struct fm_profile *profile, struct fm_event *event)
{
	(void)profile;
	struct fm_tally *t = ctx;
	if (event->type == FM_EVENT_ALLOC)
		fm_heap_log_alloc(&t->memory, &event->alloc);
	else if (event->type == FM_EVENT_FREE)
		fm_heap_log_free(&t->memory, &event->free);
}

struct fm_observer fm_tally_observer(struct fm_tally *t)
{
	return (struct fm_observer){ .on_samples = on_samples, .on_event = on_event, .ctx = t };
}
