// SPDX-License-Identifier: Apache-2.0
#include "aggregate/tally/workers.h"

#include <stdlib.h>
#include <string.h>

#include "aggregate/tally/weight.h"
#include "base/bisect.h"

// 56 bytes each. A program that makes more calls than this gets the later ones' workers untied
// rather than a report that eats the machine.
#define MAX_CALLS (4u << 20)
// A thread of which there was no sample for so long may have been anywhere.
#define MAX_GAP_NS 100000000u

void fm_callers_deinit(struct fm_callers *c)
{
	for (size_t i = 0; i < c->threads.n; i++)
		fm_vec_deinit(&c->threads.items[i].calls);
	fm_vec_deinit(&c->threads);
	*c = (struct fm_callers){ 0 };
}

static void begin_call(struct fm_callers *c, struct fm_caller *t, const struct fm_sample *s, uint32_t python_stack,
		       uint64_t images)
{
	bool is_waiting = !fm_class_is_cpu(s->class);
	uint64_t start_ns = is_waiting ? s->time_ns - FM_MIN(s->weight_ns, s->time_ns) : s->time_ns;
	fm_vec_push(&t->calls, (struct fm_call){ .before_ns = t->last_ns,
						 .after_ns = UINT64_MAX,
						 .start_ns = FM_MAX(start_ns, t->last_ns),
						 .end_ns = s->time_ns,
						 .images = images,
						 .python_stack = python_stack });
	c->n_calls++;
	t->is_in_call = true;
}

void fm_callers_add(struct fm_callers *c, const struct fm_sample *s, uint32_t python_stack, uint64_t images)
{
	if (FM_UNLIKELY(s->thread_id >= c->threads.n))
		fm_vec_grow_to(&c->threads, (size_t)s->thread_id + 1);
	struct fm_caller *t = &c->threads.items[s->thread_id];
	struct fm_call *last = t->is_in_call ? &t->calls.items[t->calls.n - 1] : NULL;
	if (last && images && last->python_stack == python_stack) {
		last->end_ns = FM_MAX(last->end_ns, s->time_ns);
		last->images |= images;
	} else {
		if (last)
			last->after_ns = s->time_ns;
		t->is_in_call = false;
		if (images && c->n_calls < MAX_CALLS)
			begin_call(c, t, s, python_stack, images);
	}
	t->last_ns = FM_MAX(t->last_ns, s->time_ns);
}

static uint64_t distance(const struct fm_call *call, uint64_t time_ns)
{
	if (time_ns <= call->before_ns || time_ns >= call->after_ns)
		return UINT64_MAX;
	return time_ns < call->start_ns ? call->start_ns - time_ns
	       : time_ns > call->end_ns ? time_ns - call->end_ns
					: 0;
}

const struct fm_call *fm_callers_at(const struct fm_callers *c, uint32_t thread_id, uint64_t time_ns)
{
	if (thread_id >= c->threads.n || !c->threads.items[thread_id].calls.n)
		return NULL;
	const struct fm_caller *t = &c->threads.items[thread_id];
	size_t low = fm_bisect(t->calls.n, i, t->calls.items[i].after_ns <= time_ns); // the first that was not over
	if (low == t->calls.n)
		return NULL;
	const struct fm_call *call = &t->calls.items[low];
	if (low + 1 < t->calls.n && distance(call + 1, time_ns) < distance(call, time_ns))
		call++;
	return distance(call, time_ns) <= MAX_GAP_NS ? call : NULL;
}
