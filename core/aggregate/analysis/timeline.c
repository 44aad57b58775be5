// SPDX-License-Identifier: Apache-2.0
#include "aggregate/analysis/timeline.h"

#include <stdlib.h>
#include <string.h>

// Samples of a running thread come a little late or early; a pause this much longer than their own
// weight is one.
#define SLACK 2
#define MAX_THREADS (1u << 24) // more are a damaged file's, as for the tally
#define FIRST_GRAIN_NS 1000000u
// While reading, so many times the runs that are wanted in the end are kept: thinning twice costs
// names.
#define ROOM 4

void fm_timeline_deinit(struct fm_timeline *t)
{
	for (size_t i = 0; i < t->threads.n; i++)
		fm_vec_deinit(&t->threads.items[i].runs);
	fm_vec_deinit(&t->threads);
	*t = (struct fm_timeline){ 0 };
}

void fm_timeline_add(struct fm_timeline *t, uint32_t thread_id, uint64_t time_ns, uint64_t weight_ns, uint32_t node,
		     uint8_t class)
{
	if (FM_UNLIKELY(thread_id >= t->threads.n))
		fm_vec_grow_to(&t->threads, (size_t)thread_id + 1);
	struct fm_timeline_thread *thread = &t->threads.items[thread_id];
	struct fm_timeline_run *last = thread->runs.n ? &thread->runs.items[thread->runs.n - 1] : NULL;
	if (last && time_ns < last->end_ns) // a damaged file, or a clock that was set
		time_ns = last->end_ns;
	uint64_t start_ns = weight_ns < time_ns ? time_ns - weight_ns : 0;
	if (last && last->node == node && last->class == class && start_ns <= last->end_ns + SLACK * weight_ns) {
		last->end_ns = time_ns;
		last->weight_ns += weight_ns;
		last->longest_ns += weight_ns;
		return;
	}
	if (last && start_ns < last->end_ns)
		start_ns = last->end_ns;
	fm_vec_push(&thread->runs, (struct fm_timeline_run){ start_ns, time_ns, weight_ns, weight_ns, node, class });
	t->n_runs++;
}

// One pass: neighbours closer than the grain become one when either is shorter than it.
static void merge_below(struct fm_timeline *t, uint64_t grain_ns)
{
	t->n_runs = 0;
	for (size_t i = 0; i < t->threads.n; i++) {
		struct fm_timeline_thread *thread = &t->threads.items[i];
		size_t kept = 0;
		for (size_t k = 1; k < thread->runs.n; k++) {
			struct fm_timeline_run *a = &thread->runs.items[kept], *b = &thread->runs.items[k];
			bool is_same = a->node == b->node && a->class == b->class;
			bool is_near = b->start_ns - a->end_ns < grain_ns;
			bool is_short = FM_MIN(a->end_ns - a->start_ns, b->end_ns - b->start_ns) < grain_ns;
			if (!is_near || !(is_short || is_same)) {
				thread->runs.items[++kept] = *b;
				continue;
			}
			a->end_ns = b->end_ns;
			a->weight_ns += b->weight_ns;
			if (is_same) {
				a->longest_ns += b->longest_ns;
				continue;
			}
			t->n_merged++;
			if (b->longest_ns > a->longest_ns) {
				a->longest_ns = b->longest_ns;
				a->node = b->node;
				a->class = b->class;
			}
		}
		if (thread->runs.n)
			thread->runs.n = kept + 1;
		t->n_runs += thread->runs.n;
	}
	t->grain_ns = grain_ns;
}

void fm_timeline_thin(struct fm_timeline *t, size_t max_runs)
{
	// The grain ends above any time there is; then each thread is one run.
	while (t->n_runs > max_runs && t->grain_ns < UINT64_MAX / 2)
		merge_below(t, t->grain_ns ? t->grain_ns * 2 : FIRST_GRAIN_NS);
}

void fm_timeline_name(struct fm_timeline *t, const struct fm_analysis *a)
{
	for (size_t i = a->tally.threads.n; i < t->threads.n; i++)
		fm_vec_deinit(&t->threads.items[i].runs);
	t->threads.n = FM_MIN(t->threads.n, a->tally.threads.n);
	t->n_runs = 0;
	for (size_t i = 0; i < t->threads.n; i++) {
		struct fm_timeline_thread *thread = &t->threads.items[i];
		size_t kept = 0;
		for (size_t k = 0; k < thread->runs.n; k++) {
			struct fm_timeline_run run = thread->runs.items[k],
					       *last = kept ? &thread->runs.items[kept - 1] : NULL;
			run.node = fm_analysis_node(a, &(struct fm_sample){ .thread_id = (uint32_t)i,
									    .stack_id = run.node,
									    .time_ns = run.end_ns,
									    .class = run.class });
			// Stacks that differ may look the same.
			if (last && last->node == run.node && last->class == run.class &&
			    run.start_ns - last->end_ns <= SLACK * run.weight_ns) {
				last->end_ns = run.end_ns;
				last->weight_ns += run.weight_ns;
				last->longest_ns += run.longest_ns;
			} else {
				thread->runs.items[kept++] = run;
			}
		}
		thread->runs.n = kept;
		t->n_runs += kept;
	}
}

static void on_event(void *ctx, const struct fm_profile *profile, struct fm_event *event)
{
	const struct fm_timeline_builder *b = ctx;
	if (event->type == FM_EVENT_TRACE)
		fm_zones_add(b->zones, profile, event->trace);
}

static void on_samples(void *ctx, const struct fm_sample *samples, uint32_t n)
{
	const struct fm_timeline_builder *b = ctx;
	struct fm_timeline *t = b->timeline;
	for (uint32_t i = 0; i < n; i++) {
		const struct fm_sample *s = &samples[i];
		if (FM_UNLIKELY(s->thread_id >= MAX_THREADS || s->class >= FM_N_CLASSES))
			continue;
		fm_timeline_add(t, s->thread_id, s->time_ns, s->weight_ns, s->stack_id, s->class);
		if (FM_UNLIKELY(t->n_runs > b->max_runs * ROOM))
			fm_timeline_thin(t, b->max_runs * ROOM / 2);
	}
}

struct fm_observer fm_timeline_observer(struct fm_timeline_builder *builder)
{
	return (struct fm_observer){ .on_samples = on_samples, .on_event = on_event, .ctx = builder };
}

void fm_timeline_finish(struct fm_timeline_builder *builder)
{
	fm_timeline_thin(builder->timeline, builder->max_runs);
	fm_zones_finish(builder->zones);
}
