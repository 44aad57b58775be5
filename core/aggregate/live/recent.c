// SPDX-License-Identifier: Apache-2.0
#include "aggregate/live/recent.h"

#include <stdlib.h>
#include <string.h>

#include "aggregate/tally/weight.h"

// A batch of a trace is written a tenth of a second after its first event; this is late by any
// measure.
#define LATE_NS 1000000000u
// Where more spans than this end in one bucket, only longer ones are drawn; with few for two
// seconds, shorter ones too.
#define MANY_SPANS 200u
#define FEW_SPANS 50u
#define CALM_BUCKETS 8u
#define LEAST_SPAN_NS 50000u
// An old batch with more events than this is one of calls, and not read: at millions a second the
// past would take too long. Smaller ones are, for the sake of marks and counters.
#define MANY_EVENTS 2000u

void fm_recent_init(struct fm_recent *r)
{
	*r = (struct fm_recent){ .min_span_ns = LEAST_SPAN_NS };
}

void fm_recent_deinit(struct fm_recent *r)
{
	for (size_t i = 0; i < FM_RECENT_KEPT; i++) {
		fm_vec_deinit(&r->buckets[i].cells);
		fm_vec_deinit(&r->buckets[i].calls);
		fm_map_deinit(&r->buckets[i].cell_index);
		fm_map_deinit(&r->buckets[i].call_index);
	}
	for (size_t i = 0; i < r->threads.n; i++)
		fm_vec_deinit(&r->threads.items[i].open);
	fm_vec_deinit(&r->threads);
	fm_vec_deinit(&r->counters);
}

void fm_recent_set_now(struct fm_recent *r, uint64_t now_ns)
{
	uint64_t kept_ns = (uint64_t)FM_RECENT_KEPT * FM_RECENT_BUCKET_NS;
	r->oldest_ns = now_ns > kept_ns ? now_ns - kept_ns : 0;
	r->newest_ns = now_ns + LATE_NS;
}

static void clear(struct fm_recent_bucket *b, uint64_t index)
{
	b->index = index;
	b->cells.n = b->calls.n = 0;
	fm_map_deinit(&b->cell_index);
	fm_map_deinit(&b->call_index);
	b->n_spans = 0;
}

static void adjust_spans(struct fm_recent *r, const struct fm_recent_bucket *last)
{
	r->n_calm = last && last->n_spans < FEW_SPANS ? r->n_calm + 1 : 0;
	if (last && last->n_spans > MANY_SPANS) {
		r->min_span_ns *= 2;
	} else if (r->n_calm == CALM_BUCKETS) {
		r->min_span_ns = FM_MAX(r->min_span_ns / 2, LEAST_SPAN_NS);
		r->n_calm = 0;
	}
}

// NULL: too long ago.
static struct fm_recent_bucket *bucket_of(struct fm_recent *r, uint64_t ns)
{
	uint64_t index = ns / FM_RECENT_BUCKET_NS;
	struct fm_recent_bucket *b = &r->buckets[index % FM_RECENT_KEPT];
	if (b->index < index) {
		adjust_spans(r, fm_recent_bucket(r, index - 1));
		clear(b, index);
	}
	return b->index == index ? b : NULL;
}

const struct fm_recent_bucket *fm_recent_bucket(const struct fm_recent *r, uint64_t index)
{
	const struct fm_recent_bucket *b = &r->buckets[index % FM_RECENT_KEPT];
	return b->index == index ? b : NULL;
}

static struct fm_recent_thread *thread_of(struct fm_recent *r, uint32_t thread_id)
{
	fm_vec_grow_to(&r->threads, (size_t)thread_id + 1);
	return &r->threads.items[thread_id];
}

// Where the bucket of `ns` ends, or `to` if that is sooner.
static uint64_t piece_end(uint64_t ns, uint64_t to)
{
	return FM_MIN(to, (ns / FM_RECENT_BUCKET_NS + 1) * FM_RECENT_BUCKET_NS);
}

static void add_weight(struct fm_recent_bucket *b, const struct fm_sample *s, uint64_t weight_ns)
{
	// A thread has less than 2^29 fellows, a capture less than 2^32 stacks.
	uint64_t key = (uint64_t)s->stack_id << 32 | (uint64_t)s->thread_id << 3 | s->class;
	bool is_new;
	uint64_t *at = fm_map_at(&b->cell_index, key, &is_new);
	if (is_new) {
		*at = b->cells.n;
		fm_vec_push(&b->cells, (struct fm_recent_cell){ s->thread_id, s->stack_id, s->class, 0 });
	}
	b->cells.items[*at].weight_ns += weight_ns;
}

void fm_recent_sample(struct fm_recent *r, const struct fm_sample *s)
{
	r->n_samples++;
	r->n_waits += !fm_class_is_cpu(s->class);
	if (s->time_ns < r->oldest_ns || s->time_ns > r->newest_ns || s->class >= FM_N_CLASSES)
		return;
	struct fm_recent_thread *t = thread_of(r, s->thread_id);
	t->last_ns = s->time_ns;
	t->last_stack = s->stack_id;
	t->last_class = s->class;
	// A sample stands for the time before it.
	uint64_t from_ns = s->time_ns - FM_MIN(s->weight_ns, s->time_ns);
	for (uint64_t at = FM_MAX(from_ns, r->oldest_ns), next; at < s->time_ns; at = next) {
		next = piece_end(at, s->time_ns);
		struct fm_recent_bucket *b = bucket_of(r, at);
		if (b)
			add_weight(b, s, next - at);
	}
}

static struct fm_recent_calls *calls_of(struct fm_recent_bucket *b, fm_zone_ref ref)
{
	bool is_new;
	uint64_t *at = fm_map_at(&b->call_index, ref, &is_new);
	if (is_new) {
		*at = b->calls.n;
		fm_vec_push(&b->calls, (struct fm_recent_calls){ .ref = ref });
	}
	return &b->calls.items[*at];
}

// The innermost one ran from the last event until now.
static void pass_time(struct fm_recent *r, struct fm_recent_thread *t, uint64_t ns)
{
	uint64_t from_ns = t->open.n ? FM_MAX(t->event_ns, r->oldest_ns) : ns;
	for (uint64_t at = from_ns, next; at < ns; at = next) {
		next = piece_end(at, ns);
		struct fm_recent_bucket *b = bucket_of(r, at);
		if (b)
			calls_of(b, t->open.items[t->open.n - 1].ref)->own_ns += next - at;
	}
	t->event_ns = FM_MAX(t->event_ns, ns);
}

static void begin(struct fm_recent *r, struct fm_recent_thread *t, const struct fm_trace_step *step)
{
	struct fm_recent_bucket *b = bucket_of(r, step->ns);
	if (b && step->is_call)
		calls_of(b, step->ref)->n++;
	fm_vec_push(&t->open, (struct fm_recent_open){ step->ref, step->ns, step->is_older });
}

static void end(struct fm_recent *r, uint32_t thread_id, struct fm_recent_thread *t, uint64_t ns)
{
	struct fm_recent_open done = t->open.items[--t->open.n];
	struct fm_recent_bucket *b = bucket_of(r, ns);
	if (!b)
		return;
	uint64_t took_ns = ns - done.begin_ns;
	if (!done.is_older) { // otherwise how long it took, nobody saw
		struct fm_recent_calls *calls = calls_of(b, done.ref);
		calls->n_ended++;
		calls->total_ns += took_ns;
		calls->max_ns = FM_MAX(calls->max_ns, took_ns);
	}
	if (took_ns < r->min_span_ns)
		return;
	b->n_spans++;
	uint64_t depth = t->walked.n_below + t->open.n;
	r->spans[r->n_spans++ % FM_RECENT_SPANS] =
		(struct fm_recent_span){ done.ref, thread_id, (uint32_t)FM_MIN(depth, UINT32_MAX), done.begin_ns, ns };
}

static void count(struct fm_recent *r, const struct fm_trace_step *step)
{
	size_t i = 0;
	while (i < r->counters.n && r->counters.items[i].name != step->id)
		i++;
	if (i == r->counters.n) {
		if (i == FM_RECENT_COUNTERS)
			return;
		fm_vec_push(&r->counters, (struct fm_recent_counter){ .name = step->id });
	}
	struct fm_recent_counter *c = &r->counters.items[i];
	uint64_t index = step->ns / FM_RECENT_BUCKET_NS;
	if (step->ns >= c->time_ns) {
		c->value = step->value;
		c->time_ns = step->ns;
	}
	c->values[index % FM_RECENT_KEPT] = step->value;
	c->index[index % FM_RECENT_KEPT] = index;
}

static void add_step(struct fm_recent *r, uint32_t thread_id, const struct fm_trace_step *step)
{
	struct fm_recent_thread *t = &r->threads.items[thread_id];
	pass_time(r, t, step->ns);
	switch (step->kind) {
	case FM_TRACE_BEGIN:
		begin(r, t, step);
		break;
	case FM_TRACE_END:
		end(r, thread_id, t, step->ns);
		break;
	case FM_TRACE_MARK:
		r->marks[r->n_marks++ % FM_RECENT_MARKS] = (struct fm_trace_mark){ thread_id, step->id, step->ns };
		break;
	case FM_TRACE_COUNTER:
		count(r, step);
		break;
	}
}

void fm_recent_trace(struct fm_recent *r, const struct fm_profile *p, struct fm_zone_batch *batch)
{
	struct fm_recent_thread *t = thread_of(r, batch->thread_id);
	t->is_traced = true;
	r->n_events += batch->n;
	bool is_old = batch->time_ns + LATE_NS < r->oldest_ns;
	if ((is_old && batch->n > MANY_EVENTS) || batch->time_ns > r->newest_ns) {
		t->is_lost = true;
		return;
	}
	if (t->is_lost) { // the batch says what is open; what was passed over before it does not matter then
		t->is_lost = false;
		t->open.n = 0;
		t->walked = (struct fm_trace_stack){ 0 };
		t->event_ns = batch->time_ns;
	}
	struct fm_trace_walk walk;
	struct fm_trace_step step;
	fm_trace_walk_begin(&walk, p, &t->walked, batch);
	while (!t->is_lost && fm_trace_walk_next(&walk, &step)) {
		if (step.ns <= r->newest_ns)
			add_step(r, batch->thread_id, &step);
		else
			t->is_lost = true;
	}
}
