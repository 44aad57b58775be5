// SPDX-License-Identifier: Apache-2.0
#include "import/slices.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH_EVENTS 32768u
// What is cut off the end of a slice by less is rounding.
#define ROUNDING_NS 1000
// Beyond them are no times: 146 years on either side.
#define MAX_TIME_NS ((int64_t)1 << 61)
#define STILL_OPEN UINT64_MAX

struct fm_slice_event {
	int64_t ns;
	union {
		uint64_t duration_ns; // of what begins
		double value;         // of a counter
	};
	uint32_t what, order;
};

void fm_slices_init(struct fm_slices *s, struct fm_import *in)
{
	*s = (struct fm_slices){ .in = in };
}

void fm_slices_deinit(struct fm_slices *s)
{
	for (size_t i = 0; i < s->threads.n; i++) {
		fm_vec_deinit(&s->threads.items[i].events);
		fm_vec_deinit(&s->threads.items[i].open);
	}
	fm_vec_deinit(&s->threads);
	fm_vec_deinit(&s->whats);
	fm_vec_deinit(&s->own_ns);
	fm_vec_deinit(&s->class_of);
}

uint32_t fm_slices_what(struct fm_slices *s, struct fm_slice_what what)
{
	fm_vec_push(&s->whats, what);
	return (uint32_t)s->whats.n - 1;
}

uint32_t fm_slices_thread(struct fm_slices *s, uint32_t thread_id)
{
	fm_vec_push(&s->threads, (struct fm_slice_thread){ .thread_id = thread_id, .last_ns = -MAX_TIME_NS });
	return (uint32_t)s->threads.n - 1;
}

static uint32_t put(struct fm_slices *s, uint32_t thread, struct fm_slice_event event)
{
	struct fm_slice_thread *t = &s->threads.items[thread];
	event.ns = FM_MAX(FM_MIN(event.ns, MAX_TIME_NS), -MAX_TIME_NS);
	event.order = (uint32_t)t->events.n;
	s->first_ns = s->has_any ? FM_MIN(s->first_ns, event.ns) : event.ns;
	s->has_any = true;
	t->last_ns = FM_MAX(t->last_ns, event.ns);
	fm_vec_push(&t->events, event);
	s->in->n_events++;
	return event.order;
}

void fm_slices_add(struct fm_slices *s, uint32_t thread, uint32_t what, int64_t ns, uint64_t duration_ns)
{
	struct fm_slice_thread *t = &s->threads.items[thread];
	duration_ns = FM_MIN(duration_ns, (uint64_t)MAX_TIME_NS);
	put(s, thread, (struct fm_slice_event){ .ns = ns, .duration_ns = duration_ns, .what = what });
	if (s->inner_first) // such slices lie in the file in the order of their ends
		t->events.items[t->events.n - 1].order = UINT32_MAX - t->events.items[t->events.n - 1].order;
	t->last_ns = FM_MAX(t->last_ns, FM_MIN(ns, MAX_TIME_NS) + (int64_t)duration_ns);
}

void fm_slices_begin(struct fm_slices *s, uint32_t thread, uint32_t what, int64_t ns)
{
	uint32_t at = put(s, thread, (struct fm_slice_event){ .ns = ns, .duration_ns = STILL_OPEN, .what = what });
	fm_vec_push(&s->threads.items[thread].open, at);
}

void fm_slices_end(struct fm_slices *s, uint32_t thread, int64_t ns)
{
	struct fm_slice_thread *t = &s->threads.items[thread];
	if (!t->open.n) {
		s->n_without_begin++;
		return;
	}
	struct fm_slice_event *e = &t->events.items[t->open.items[--t->open.n]];
	ns = FM_MAX(FM_MIN(ns, MAX_TIME_NS), e->ns);
	e->duration_ns = (uint64_t)(ns - e->ns);
	t->last_ns = FM_MAX(t->last_ns, ns);
}

void fm_slices_mark(struct fm_slices *s, uint32_t thread, uint32_t what, int64_t ns)
{
	put(s, thread, (struct fm_slice_event){ .ns = ns, .what = what });
}

void fm_slices_counter(struct fm_slices *s, uint32_t thread, uint32_t what, int64_t ns, double value)
{
	put(s, thread, (struct fm_slice_event){ .ns = ns, .value = value, .what = what });
}

// ---- the trace of one thread ----

struct open_slice {
	uint64_t end_ns;
	uint32_t stack_id;
	uint8_t class;
};

struct sweep {
	struct fm_slices *s;
	struct fm_slice_thread *t;
	struct fm_zone_encoder encoder;
	struct fm_buf body;
	uint32_t n_encoded;
	FM_VEC(struct open_slice) open;
	uint64_t last_ns;         // from here on time is the innermost one's
	FM_VEC(uint32_t) touched; // stacks with time that no sample stands for yet
};

static bool is_slice(const struct fm_slices *s, const struct fm_slice_event *e)
{
	uint8_t op = s->whats.items[e->what].op;
	return op != FM_ZONE_MARK && op != FM_ZONE_COUNTER;
}

static void put_batch(struct sweep *w)
{
	w->body.len = 0;
	if (fm_zone_encoder_take(&w->encoder, w->t->thread_id, &w->body))
		fm_writer_trace(w->s->in->w, w->t->thread_id, w->body.data, w->body.len);
}

static void encode(struct sweep *w, uint8_t op, uint32_t ref, uint64_t ns, double value)
{
	fm_zone_encode(&w->encoder, op, ref, ns, value);
	if (++w->n_encoded % BATCH_EVENTS == 0)
		put_batch(w);
}

// The stack's time since begin_ns, as samples of 1 ms; what is left of one waits for more.
static void put_samples(struct sweep *w, uint32_t stack_id, uint64_t begin_ns, uint64_t end_ns, uint64_t at_least_ns)
{
	struct fm_import *in = w->s->in;
	uint64_t own_ns = w->s->own_ns.items[stack_id], n = own_ns / FM_IMPORT_SAMPLE_NS;
	if (!own_ns || own_ns < at_least_ns)
		return;
	n = FM_MAX(n, 1u);
	if (n > 1 && in->n_samples + n > FM_IMPORT_MAX_SAMPLES) {
		in->has_merged_samples = true;
		n = 1;
	}
	for (uint64_t i = 1; i <= n; i++)
		fm_import_sample_at(in, &(struct fm_sample){ .thread_id = w->t->thread_id,
							     .stack_id = stack_id,
							     .time_ns = begin_ns + (end_ns - begin_ns) / n * i,
							     .weight_ns = own_ns / n + (i <= own_ns % n),
							     .class = w->s->class_of.items[stack_id] });
	w->s->own_ns.items[stack_id] = 0;
}

static void spend_until(struct sweep *w, uint64_t ns)
{
	if (w->open.n && ns > w->last_ns) {
		const struct open_slice *top = &w->open.items[w->open.n - 1];
		fm_vec_grow_to(&w->s->own_ns, (size_t)top->stack_id + 1);
		fm_vec_grow_to(&w->s->class_of, (size_t)top->stack_id + 1);
		uint64_t *own_ns = &w->s->own_ns.items[top->stack_id];
		if (!*own_ns)
			fm_vec_push(&w->touched, top->stack_id);
		*own_ns += ns - w->last_ns;
		w->s->class_of.items[top->stack_id] = top->class;
		put_samples(w, top->stack_id, w->last_ns, ns, FM_IMPORT_SAMPLE_NS);
	}
	w->last_ns = FM_MAX(w->last_ns, ns);
}

static void end_until(struct sweep *w, uint64_t ns)
{
	while (w->open.n && w->open.items[w->open.n - 1].end_ns <= ns) {
		uint64_t end_ns = w->open.items[w->open.n - 1].end_ns;
		spend_until(w, end_ns);
		encode(w, FM_ZONE_LEAVE, 0, end_ns, 0);
		w->open.n--;
	}
	spend_until(w, ns);
}

static void begin(struct sweep *w, const struct fm_slice_what *what, uint64_t ns, uint64_t end_ns)
{
	const struct open_slice *around = w->open.n ? &w->open.items[w->open.n - 1] : NULL;
	if (around && end_ns > around->end_ns) {
		w->s->n_cut += end_ns > around->end_ns + ROUNDING_NS;
		end_ns = around->end_ns;
	}
	uint32_t stack_id = fm_writer_stack(w->s->in->w, around ? around->stack_id : FM_ROOT_STACK, what->frame_id);
	encode(w, what->op, what->ref, ns, 0);
	fm_vec_push(&w->open, (struct open_slice){ end_ns, stack_id, what->class });
}

static int compare(const void *pa, const void *pb)
{
	const struct fm_slice_event *a = pa, *b = pb;
	if (a->ns != b->ns)
		return a->ns < b->ns ? -1 : 1;
	if (a->duration_ns != b->duration_ns)
		return a->duration_ns > b->duration_ns ? -1 : 1;
	return (a->order > b->order) - (a->order < b->order);
}

static uint64_t in_capture(const struct fm_slices *s, int64_t ns)
{
	return FM_IMPORT_START_NS + (uint64_t)(ns - s->first_ns);
}

static void put_thread(struct fm_slices *s, struct fm_slice_thread *t)
{
	struct sweep w = { .s = s, .t = t };
	for (size_t i = 0; i < t->open.n; i++) {
		struct fm_slice_event *e = &t->events.items[t->open.items[i]];
		e->duration_ns = (uint64_t)(t->last_ns - e->ns);
	}
	s->n_without_end += t->open.n;
	if (t->events.n)
		qsort(t->events.items, t->events.n, sizeof(*t->events.items), compare);
	for (size_t i = 0; i < t->events.n; i++) {
		const struct fm_slice_event *e = &t->events.items[i];
		const struct fm_slice_what *what = &s->whats.items[e->what];
		uint64_t ns = in_capture(s, e->ns);
		end_until(&w, ns);
		if (is_slice(s, e))
			begin(&w, what, ns, ns + e->duration_ns);
		else
			encode(&w, what->op, what->ref, ns, what->op == FM_ZONE_COUNTER ? e->value : 0);
	}
	end_until(&w, t->events.n ? in_capture(s, t->last_ns) : FM_IMPORT_START_NS);
	for (size_t i = 0; i < w.touched.n; i++)
		put_samples(&w, w.touched.items[i], w.last_ns, w.last_ns, 1);
	put_batch(&w);
	struct fm_import_thread *thread = &s->in->threads.items[t->thread_id];
	thread->now_ns = FM_MAX(thread->now_ns, w.last_ns);
	fm_zone_encoder_deinit(&w.encoder);
	fm_buf_deinit(&w.body);
	fm_vec_deinit(&w.open);
	fm_vec_deinit(&w.touched);
}

static void tell(struct fm_slices *s, uint64_t n, const char *what, const char *why)
{
	char text[96];
	snprintf(text, sizeof(text), "%" PRIu64 " %s", n, what);
	if (n)
		fm_import_missing(s->in, text, why);
}

void fm_slices_put(struct fm_slices *s)
{
	uint64_t n_events = 0;
	char text[32];
	for (size_t i = 0; i < s->threads.n; i++) {
		n_events += s->threads.items[i].events.n;
		put_thread(s, &s->threads.items[i]);
	}
	snprintf(text, sizeof(text), "%" PRIu64, n_events);
	fm_writer_meta(s->in->w, "trace_events", fm_str_of(text));
	tell(s, s->n_without_begin, "ends of slices", "nothing had begun on their thread");
	tell(s, s->n_without_end, "slices without an end", "they end with the last event of their thread");
	tell(s, s->n_cut, "slices that overlap", "one is not inside the other; the end of the later one is cut");
	fm_import_missing(s->in, "CPU time",
			  "the trace has wall times: waiting counts as running, and its samples are these times in "
			  "pieces of 1 ms");
}
