// SPDX-License-Identifier: Apache-2.0
#include "aggregate/compare/series.h"

struct builder {
	struct fm_series *series;
	const struct fm_analysis *a;
	uint64_t start_ns;
	double width_ns;
};

uint64_t fm_series_end_ns(const struct fm_analysis *a)
{
	uint64_t end = 0;
	for (size_t i = 0; i < a->profile->processes.n; i++)
		end = FM_MAX(end, a->profile->processes.items[i].end_ns);
	for (size_t i = 0; i < a->tally.threads.n; i++)
		end = FM_MAX(end, a->tally.threads.items[i].last_ns);
	return end;
}

// The parts that a time overlaps, the last one included; none when it lies beside the whole.
static bool parts_of(const struct builder *b, uint64_t from_ns, uint64_t to_ns, size_t *ret_first, size_t *ret_last)
{
	if (to_ns < b->start_ns)
		return false;
	double from = from_ns > b->start_ns ? (double)(from_ns - b->start_ns) / b->width_ns : 0;
	double to = (double)(to_ns - b->start_ns) / b->width_ns;
	if (from >= FM_SERIES_PARTS)
		return false;
	*ret_first = (size_t)from;
	*ret_last = to >= FM_SERIES_PARTS ? FM_SERIES_PARTS - 1 : (size_t)to;
	return true;
}

static void take_samples(void *ctx, const struct fm_sample *samples, uint32_t n)
{
	const struct builder *b = ctx;
	for (uint32_t i = 0; i < n; i++) {
		const struct fm_sample *s = &samples[i];
		size_t first, last;
		uint64_t from_ns = s->weight_ns < s->time_ns ? s->time_ns - s->weight_ns : 0;
		if (!fm_analysis_knows(b->a, s) || !fm_class_is_cpu(s->class) ||
		    !parts_of(b, from_ns, s->time_ns, &first, &last))
			continue;
		for (size_t k = first; k <= last; k++)
			b->series->cpu_s[k] += (double)s->weight_ns / 1e9 / (double)(last - first + 1);
	}
}

static void add_memory(const struct builder *b)
{
	const struct fm_heap *h = &b->a->heap;
	for (size_t i = 0; i < h->timeline.n; i++) {
		const struct fm_heap_point *p = &h->timeline.items[i];
		size_t first, last;
		uint64_t from_ns = i ? h->timeline.items[i - 1].time_ns : h->begin_ns; // a point is a bucket's end
		if (!parts_of(b, from_ns, p->time_ns, &first, &last))
			continue;
		b->series->has_memory = true;
		for (size_t k = first; k <= last; k++) {
			b->series->heap[k] = FM_MAX(b->series->heap[k], p->heap_high_bytes);
			b->series->rss[k] = FM_MAX(b->series->rss[k], p->rss_bytes);
		}
	}
}

enum fm_err fm_series_build(struct fm_series *c, const struct fm_analysis *a, uint64_t start_ns, uint64_t span_ns,
			    struct fm_diag *diag)
{
	*c = (struct fm_series){ 0 };
	struct builder b = { c, a, start_ns, (double)FM_MAX(span_ns, (uint64_t)1) / FM_SERIES_PARTS };
	add_memory(&b);
	const struct fm_observer observer = { .on_samples = take_samples, .ctx = &b };
	return fm_reader_replay(a->reader, &observer, diag);
}
