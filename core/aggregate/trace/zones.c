// SPDX-License-Identifier: Apache-2.0
#include "aggregate/trace/zones.h"

#include <stdlib.h>
#include <string.h>

#define MAX_ZONES ((size_t)32 << 20) // half a GiB
#define FIRST_GRAIN_NS 1000u
#define MAX_DEPTH 4096 // a recursion deeper than this is a colour, not a picture
#define MAX_TIME_NS (((uint64_t)1 << 48) - 1)
#define MAX_MARKS 10000
#define MAX_POINTS 8192                          // of one counter
#define MAX_ALL_POINTS ((size_t)64 * MAX_POINTS) // 8 MiB

struct fm_zone_open {
	uint32_t label;
	bool is_outermost; // of its kind
	uint64_t begin_ns;
	uint64_t inner_ns; // spent in what it called
};

static uint32_t add_label(struct fm_zones *z, fm_zone_ref ref)
{
	fm_vec_push(&z->labels, (struct fm_zone_label){ .ref = ref });
	return (uint32_t)z->labels.n - 1;
}

static uint32_t label_of(struct fm_zones *z, fm_zone_ref ref)
{
	if (!z->labels.n)
		add_label(z, 0);
	if (!ref)
		return 0;
	uint32_t id = fm_zone_ref_id(ref);
	uint32_t *known;
	if (fm_zone_ref_is_name(ref)) {
		fm_vec_grow_to(&z->of_name, (size_t)id + 1);
		known = &z->of_name.items[id];
	} else {
		fm_vec_grow_to(&z->of_code, (size_t)id + 1);
		known = &z->of_code.items[id];
	}
	if (FM_UNLIKELY(!*known))
		*known = add_label(z, ref) + 1;
	return *known - 1;
}

static uint64_t within(uint64_t ns)
{
	return FM_MIN(ns, MAX_TIME_NS);
}

static void leave_out(struct fm_zones *z, uint64_t duration_ns)
{
	z->n_left_out++;
	z->left_out_ns += duration_ns;
}

// Too many for memory: the shortest go, as no picture but the closest would show them.
static void thin(struct fm_zones *z)
{
	while (z->n > z->max / 2) {
		z->grain_ns = z->grain_ns ? z->grain_ns * 2 : FIRST_GRAIN_NS;
		z->n = 0;
		for (size_t i = 0; i < z->threads.n; i++)
			for (size_t d = 0; d < z->threads.items[i].rows.n; d++) {
				struct fm_zone_row *row = &z->threads.items[i].rows.items[d];
				size_t kept = 0;
				for (size_t k = 0; k < row->zones.n; k++)
					if (row->zones.items[k].duration_ns >= z->grain_ns)
						row->zones.items[kept++] = row->zones.items[k];
					else
						leave_out(z, row->zones.items[k].duration_ns);
				row->zones.n = kept;
				z->n += kept;
			}
	}
}

static void count(struct fm_zone_label *w, const struct fm_zone_open *open, uint64_t duration_ns)
{
	w->own_ns += duration_ns - open->inner_ns;
	w->total_ns += open->is_outermost ? duration_ns : 0;
	fm_durations_add(&w->spans, duration_ns);
}

static void begin(struct fm_zones *z, struct fm_zone_thread *t, uint32_t label, bool is_call, uint64_t ns)
{
	z->labels.items[label].n_calls += is_call;
	fm_vec_grow_to(&t->active, (size_t)label + 1);
	bool is_outermost = t->active.items[label]++ == 0;
	fm_vec_push(&t->open, (struct fm_zone_open){ label, is_outermost, ns, 0 });
}

static void end(struct fm_zones *z, struct fm_zone_thread *t, uint64_t ns)
{
	const struct fm_zone_open *open = &t->open.items[--t->open.n];
	size_t depth = t->open.n;
	uint64_t duration_ns = ns - open->begin_ns;
	count(&z->labels.items[open->label], open, duration_ns);
	t->active.items[open->label]--;
	if (depth)
		t->open.items[depth - 1].inner_ns += duration_ns;
	if (FM_UNLIKELY(depth >= MAX_DEPTH || duration_ns < z->grain_ns)) {
		leave_out(z, duration_ns);
		return;
	}
	if (FM_UNLIKELY(depth >= t->rows.n))
		fm_vec_grow_to(&t->rows, depth + 1);
	uint64_t begin_ns = within(open->begin_ns - z->origin_ns);
	fm_vec_push(&t->rows.items[depth].zones,
		    (struct fm_zone){ .begin_ns = begin_ns,
				      .label_low = open->label & 0xffff,
				      .duration_ns = FM_MIN(duration_ns, MAX_TIME_NS - begin_ns),
				      .label_high = open->label >> 16 });
	if (FM_UNLIKELY(++z->n >= z->max))
		thin(z);
}

static void add_mark(struct fm_zones *z, const struct fm_trace_step *step, uint32_t thread_id)
{
	if (z->marks.n < MAX_MARKS)
		fm_vec_push(&z->marks, (struct fm_trace_mark){ thread_id, step->id, step->ns });
	else
		z->n_marks_left_out++;
}

static void halve(struct fm_zones *z, struct fm_zone_counter *c)
{
	size_t kept = (c->points.n + 1) / 2;
	for (size_t k = 0; k < kept; k++)
		c->points.items[k] = c->points.items[2 * k];
	z->n_points -= c->points.n - kept;
	c->points.n = kept;
	c->stride *= 2;
}

// Too many counters for as many points of each: those that have most give. Each keeps one, so that
// there are never fewer than counters.
static void thin_points(struct fm_zones *z)
{
	for (size_t most = MAX_POINTS / 2; most && z->n_points > MAX_ALL_POINTS / 4 * 3; most /= 2)
		for (size_t i = 0; i < z->counters.n; i++)
			while (z->counters.items[i].points.n > most)
				halve(z, &z->counters.items[i]);
	z->max_points = FM_MAX(MAX_ALL_POINTS, 2 * z->n_points);
}

static void add_point(struct fm_zones *z, const struct fm_trace_step *step)
{
	bool is_new;
	uint64_t *at = fm_map_at(&z->of_counter, step->id, &is_new);
	if (is_new) {
		*at = z->counters.n;
		fm_vec_push(&z->counters, (struct fm_zone_counter){ .name = step->id, .stride = 1 });
	}
	struct fm_zone_counter *c = &z->counters.items[*at];
	if (c->n_seen++ % c->stride)
		return;
	fm_vec_push(&c->points, (struct fm_zone_point){ step->ns, step->value });
	z->n_points++;
	if (c->points.n > MAX_POINTS)
		halve(z, c);
	if (z->n_points > FM_MAX(z->max_points, MAX_ALL_POINTS))
		thin_points(z);
}

static struct fm_zone_thread *thread_of(struct fm_zones *z, const struct fm_zone_batch *batch)
{
	if (!z->max)
		z->max = MAX_ZONES;
	if (!z->end_ns) { // another thread's first part may come later in the file, and have begun hours before
		z->origin_ns = batch->time_ns - FM_MIN(batch->time_ns, (MAX_TIME_NS + 1) / 4);
		z->begin_ns = UINT64_MAX;
	}
	fm_vec_grow_to(&z->threads, (size_t)batch->thread_id + 1);
	struct fm_zone_thread *t = &z->threads.items[batch->thread_id];
	t->walked.last_ns = FM_MAX(t->walked.last_ns, FM_MAX(batch->time_ns, z->origin_ns));
	z->begin_ns = FM_MIN(z->begin_ns, t->walked.last_ns);
	return t;
}

void fm_zones_add(struct fm_zones *z, const struct fm_profile *p, struct fm_zone_batch *batch)
{
	struct fm_zone_thread *t = thread_of(z, batch);
	struct fm_trace_walk walk;
	struct fm_trace_step step;
	fm_trace_walk_begin(&walk, p, &t->walked, batch);
	while (fm_trace_walk_next(&walk, &step)) {
		switch (step.kind) {
		case FM_TRACE_BEGIN:
			begin(z, t, label_of(z, step.ref), step.is_call, step.ns);
			break;
		case FM_TRACE_END:
			end(z, t, step.ns);
			break;
		case FM_TRACE_MARK:
			add_mark(z, &step, batch->thread_id);
			break;
		case FM_TRACE_COUNTER:
			add_point(z, &step);
			break;
		}
	}
	z->end_ns = FM_MAX(z->end_ns, t->walked.last_ns);
}

static void sum_blocks(struct fm_zone_row *row)
{
	row->blocks.n = 0;
	fm_vec_grow_to(&row->blocks, (row->zones.n + FM_ZONES_IN_BLOCK - 1) / FM_ZONES_IN_BLOCK);
	for (uint32_t i = 0; i < row->zones.n; i++) {
		struct fm_zone_block *block = &row->blocks.items[i / FM_ZONES_IN_BLOCK];
		if (i % FM_ZONES_IN_BLOCK == 0 ||
		    row->zones.items[i].duration_ns > row->zones.items[block->longest].duration_ns)
			block->longest = i;
		block->busy_ns += row->zones.items[i].duration_ns;
	}
}

void fm_zones_finish(struct fm_zones *z)
{
	for (size_t i = 0; i < z->threads.n; i++) {
		struct fm_zone_thread *t = &z->threads.items[i];
		while (t->open.n)
			end(z, t, t->walked.last_ns);
		fm_vec_deinit(&t->open);
		fm_vec_deinit(&t->active);
	}
	for (size_t i = 0; i < z->threads.n; i++) // after all of them: the last zone may have thinned every row
		for (size_t d = 0; d < z->threads.items[i].rows.n; d++)
			sum_blocks(&z->threads.items[i].rows.items[d]);
	fm_vec_deinit(&z->of_code);
	fm_vec_deinit(&z->of_name);
	fm_map_deinit(&z->of_counter);
}

void fm_zones_deinit(struct fm_zones *z)
{
	for (size_t i = 0; i < z->threads.n; i++) {
		struct fm_zone_thread *t = &z->threads.items[i];
		for (size_t d = 0; d < t->rows.n; d++) {
			fm_vec_deinit(&t->rows.items[d].zones);
			fm_vec_deinit(&t->rows.items[d].blocks);
		}
		fm_vec_deinit(&t->rows);
		fm_vec_deinit(&t->open);
		fm_vec_deinit(&t->active);
	}
	for (size_t i = 0; i < z->labels.n; i++)
		free(z->labels.items[i].spans.buckets);
	for (size_t i = 0; i < z->counters.n; i++)
		fm_vec_deinit(&z->counters.items[i].points);
	fm_vec_deinit(&z->threads);
	fm_vec_deinit(&z->labels);
	fm_vec_deinit(&z->marks);
	fm_vec_deinit(&z->counters);
	fm_vec_deinit(&z->of_code);
	fm_vec_deinit(&z->of_name);
	fm_map_deinit(&z->of_counter);
	*z = (struct fm_zones){ 0 };
}
