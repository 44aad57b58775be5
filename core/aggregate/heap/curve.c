// SPDX-License-Identifier: Apache-2.0
// The whole program's live bytes over time: highest point, high-water marks that are peaks of their
// own, a timeline with what the kernel said beside it.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/heap/parts.h"

// A peak is one of its own when the heap fell by a quarter before the next one; what is below a
// tenth of the highest is not worth a line.
#define FALL 0.75
#define MIN_PEAK_SHARE 0.1
#define SLOPE_POINTS 64

struct finder {
	struct fm_heap_marks *marks;
	bool is_falling;
	uint64_t low;
	struct fm_heap_mark high;
};

static void keep_mark(struct fm_heap_marks *marks, struct fm_heap_mark mark)
{
	uint32_t at = marks->n;
	while (at > 0 && marks->items[at - 1].bytes < mark.bytes)
		at--;
	if (at >= FM_HEAP_MAX_PEAKS)
		return;
	if (marks->n < FM_HEAP_MAX_PEAKS)
		marks->n++;
	memmove(&marks->items[at + 1], &marks->items[at], (marks->n - at - 1) * sizeof(mark));
	marks->items[at] = mark;
}

static void find_step(struct finder *f, uint32_t n_steps, uint64_t time_ns, uint64_t live)
{
	if (f->is_falling) {
		f->low = FM_MIN(f->low, live);
		if ((double)live * FALL <= (double)f->low)
			return;
		f->is_falling = false;
		f->high = (struct fm_heap_mark){ 0 };
	}
	if (live > f->high.bytes) {
		f->high = (struct fm_heap_mark){ n_steps, time_ns, live };
	} else if ((double)live < (double)f->high.bytes * FALL) {
		keep_mark(f->marks, f->high);
		f->is_falling = true;
		f->low = live;
	}
}

static void finish_marks(struct finder *f)
{
	if (!f->is_falling && f->high.bytes)
		keep_mark(f->marks, f->high);
	struct fm_heap_marks *m = f->marks;
	while (m->n && (double)m->items[m->n - 1].bytes < (double)m->items[0].bytes * MIN_PEAK_SHARE)
		m->n--;
	m->n_steps_at_peak = m->n ? m->items[0].n_steps : 0;
}

static void walk_heap(struct fm_heap *h, const struct fm_heap_input *in, struct finder *f)
{
	const struct fm_heap_log *log = in->log;
	uint64_t live = 0;
	double var = 0;
	unsigned bucket = 0;
	struct fm_heap_point *points = h->timeline.items;
	for (uint32_t i = 0; i < log->steps.n; i++) {
		const struct fm_step *step = &log->steps.items[i];
		const struct fm_block *b = &log->blocks.items[step->block & ~FM_STEP_DIES];
		unsigned now = fm_heap_bucket(h, step->time_ns, (unsigned)h->timeline.n);
		for (; bucket < now; bucket++) {
			points[bucket].heap_bytes = live;
			points[bucket + 1].heap_high_bytes = live;
		}
		if (step->block & FM_STEP_DIES) {
			live -= b->held;
			var -= fm_block_variance(b);
		} else {
			live += b->held;
			var += fm_block_variance(b);
			h->alloc_bytes += b->weight;
			h->alloc_var += fm_block_variance(b);
		}
		points[now].heap_high_bytes = FM_MAX(points[now].heap_high_bytes, live);
		if (live > h->peak_bytes) {
			h->peak_bytes = live;
			h->peak_var = FM_MAX(var, 0.0);
		}
		find_step(f, i + 1, step->time_ns, live);
		if (i + 1 == f->marks->n_steps_settled)
			h->live_bytes = live;
	}
	for (; bucket < h->timeline.n; bucket++) {
		points[bucket].heap_bytes = live;
		if (bucket + 1 < h->timeline.n)
			points[bucket + 1].heap_high_bytes = live;
	}
}

static int compare_levels(const void *pa, const void *pb)
{
	const struct fm_memory_level *a = *(const struct fm_memory_level *const *)pa,
				     *b = *(const struct fm_memory_level *const *)pb;
	return (a->time_ns > b->time_ns) - (a->time_ns < b->time_ns);
}

static void add_point(struct fm_heap_point *p, const struct fm_memory_level *all, bool is_exact)
{
	p->rss_bytes = FM_MAX(p->rss_bytes, all->rss_bytes);
	p->pss_bytes = FM_MAX(p->pss_bytes, all->pss_bytes);
	p->swap_bytes = FM_MAX(p->swap_bytes, all->swap_bytes);
	if (is_exact && all->heap_high_bytes) {
		p->heap_bytes = all->heap_bytes;
		p->heap_high_bytes = FM_MAX(p->heap_high_bytes, all->heap_high_bytes);
	}
}

// Each process keeps its last level until the next, or until it ends: the program is their sum.
static void walk_levels(struct fm_heap *h, const struct fm_heap_input *in)
{
	const struct fm_profile *profile = in->profile;
	size_t n = profile->memory_levels.n;
	if (!n)
		return;
	const struct fm_memory_level **order = fm_alloc(n * sizeof(*order));
	for (size_t i = 0; i < n; i++)
		order[i] = &profile->memory_levels.items[i];
	qsort(order, n, sizeof(*order), compare_levels);
	struct fm_memory_level *last = fm_alloc(FM_MAX(profile->processes.n, (size_t)1) * sizeof(*last));
	struct fm_memory_level all = { 0 };
	size_t at = 0;
	for (unsigned bucket = 0; bucket < h->timeline.n; bucket++) {
		struct fm_heap_point *p = &h->timeline.items[bucket];
		for (uint32_t i = 0; i < profile->processes.n; i++) {
			uint64_t end_ns = profile->processes.items[i].end_ns;
			if (!last[i].time_ns || !end_ns || end_ns >= p->time_ns)
				continue;
			all.rss_bytes -= last[i].rss_bytes;
			all.pss_bytes -= last[i].pss_bytes;
			all.swap_bytes -= last[i].swap_bytes;
			all.heap_bytes -= last[i].heap_bytes;
			all.heap_high_bytes -= last[i].heap_high_bytes;
			last[i] = (struct fm_memory_level){ 0 };
		}
		bool is_new = false;
		for (; at < n && fm_heap_bucket(h, order[at]->time_ns, (unsigned)h->timeline.n) <= bucket; at++) {
			const struct fm_memory_level *l = order[at];
			struct fm_memory_level *mine = &last[l->process_id];
			// A level tells of the heap or of the kernel's view, or of both: what it
			// does not know stays.
#define TAKE(field)                                  \
	if (l->field) {                              \
		all.field += l->field - mine->field; \
		mine->field = l->field;              \
	}
			TAKE(rss_bytes);
			TAKE(pss_bytes);
			if (l->heap_high_bytes) {
				all.heap_bytes += l->heap_bytes - mine->heap_bytes;
				mine->heap_bytes = l->heap_bytes;
				TAKE(heap_high_bytes);
			}
			if (l->rss_bytes) {
				all.swap_bytes += l->swap_bytes - mine->swap_bytes;
				mine->swap_bytes = l->swap_bytes;
			}
#undef TAKE
			mine->time_ns = l->time_ns | 1;
			if (l->cgroup_limit_bytes &&
			    (!h->cgroup_limit_bytes || l->cgroup_limit_bytes < h->cgroup_limit_bytes))
				h->cgroup_limit_bytes = l->cgroup_limit_bytes;
			h->max_cgroup_bytes = FM_MAX(h->max_cgroup_bytes, l->cgroup_bytes);
			add_point(p, &all, h->is_exact);
			is_new = true;
		}
		if (!is_new)
			add_point(p, &all, false);
		if (!is_new && h->is_exact && all.heap_high_bytes)
			p->heap_bytes = p->heap_high_bytes = all.heap_bytes;
	}
	free(last);
	free(order);
}

static int compare_doubles(const void *pa, const void *pb)
{
	double a = *(const double *)pa, b = *(const double *)pb;
	return (a > b) - (a < b);
}

// Theil-Sen: the median of the slopes between all pairs, which a single jump does not move.
static void find_slope(struct fm_heap *h)
{
	size_t n = FM_MIN(h->timeline.n, (size_t)SLOPE_POINTS), n_slopes = 0;
	if (n < 3 || h->end_ns <= h->begin_ns)
		return;
	double *slopes = fm_alloc(n * n / 2 * sizeof(*slopes));
	for (size_t i = 0; i < n; i++)
		for (size_t k = i + 1; k < n; k++) {
			const struct fm_heap_point *a = &h->timeline.items[i * h->timeline.n / n],
						   *b = &h->timeline.items[k * h->timeline.n / n];
			if (b->time_ns > h->settled_ns)
				continue;
			slopes[n_slopes++] = ((double)b->heap_bytes - (double)a->heap_bytes) /
					     ((double)(b->time_ns - a->time_ns) * 1e-9);
		}
	if (n_slopes) {
		qsort(slopes, n_slopes, sizeof(*slopes), compare_doubles);
		h->slope_bytes_s = slopes[n_slopes / 2];
	}
	free(slopes);
}

void fm_heap_curve(struct fm_heap *h, const struct fm_heap_input *in, struct fm_heap_marks *ret)
{
	*ret = (struct fm_heap_marks){ .n_steps_settled = fm_heap_log_steps_until(in->log, h->settled_ns) };
	uint64_t length_ns = h->end_ns - h->begin_ns;
	if (!in->log->steps.n && !in->profile->memory_levels.n)
		return;
	fm_vec_grow_to(&h->timeline, length_ns < FM_HEAP_BUCKETS ? (size_t)1 : (size_t)FM_HEAP_BUCKETS);
	for (size_t i = 0; i < h->timeline.n; i++)
		h->timeline.items[i].time_ns =
			h->begin_ns + (uint64_t)((unsigned __int128)length_ns * (i + 1) / h->timeline.n);
	h->n_events = in->log->steps.n + in->log->copies.n;
	struct finder f = { .marks = ret };
	walk_heap(h, in, &f);
	finish_marks(&f);
	walk_levels(h, in);
	find_slope(h);
	h->growth_rate = fm_heap_share(h->live_bytes, h->alloc_bytes);
}
