// Exact mode: the agent counted every allocation by stack. Its sums replace the estimates from sampled events, where there are
// any; how a line's bytes went over time is only known from events, but for their average.
#include <stdlib.h>
#include <string.h>

#include "aggregate/heap_parts.h"

static void forget(struct fm_heap_figures *f)
{
	struct fm_heap_figures kept = { .avg_bytes = f->avg_bytes,
					.copy_bytes = f->copy_bytes,
					.copy_var = f->copy_var };
	*f = kept;
}

// Peaks of a line's stacks were at different times: their sum is the highest that the line can have held.
static void add(struct fm_heap_figures *f, const struct fm_site *s, uint64_t avg_bytes)
{
	f->avg_bytes += avg_bytes;
	f->alloc_bytes += s->alloc_bytes;
	f->n_allocs += s->n_allocs;
	f->python_bytes += fm_alloc_is_python(s->domain) ? s->alloc_bytes : 0;
	f->peak_bytes += s->peak_bytes;
	f->at_peak_bytes += s->at_peak_bytes;
	f->live_bytes += s->live_bytes;
}

// What a site held on average over the whole run.
static uint64_t average_of(const struct fm_heap *h, const struct fm_profile *profile, const struct fm_site *s)
{
	const struct fm_process *p = &profile->processes.items[s->process_id];
	double run = (double)(h->end_ns - h->begin_ns), life = (double)(p->end_ns - p->info.start_ns);
	if (h->end_ns <= h->begin_ns || p->end_ns <= p->info.start_ns)
		return 0;
	return fm_heap_bytes_of((double)s->peak_bytes * s->held / 255 * FM_MIN(life / run, 1.0));
}

static void limit(struct fm_heap_figures *f, uint64_t program_peak)
{
	f->peak_bytes = FM_MAX(FM_MIN(f->peak_bytes, program_peak), f->at_peak_bytes);
}

void fm_heap_sites(struct fm_heap *h, const struct fm_heap_input *in, const struct fm_heap_groups *g)
{
	forget(&h->no_python);
	for (size_t i = 0; i < h->lines.n; i++)
		forget(&h->lines.items[i].f);
	for (size_t i = 0; i < h->functions.n; i++) {
		forget(&h->functions.items[i].self);
		forget(&h->functions.items[i].total);
	}
	for (size_t i = 0; i < h->stacks.n; i++)
		h->stacks.items[i].alloc_bytes = h->stacks.items[i].at_peak_bytes = 0;
	h->alloc_bytes = h->live_bytes = 0;
	h->alloc_var = h->peak_var = 0;
	uint64_t highest = 0, *at_peak = fm_alloc((in->profile->processes.n + 1) * sizeof(*at_peak)); // of each process
	for (size_t i = 0; i < in->profile->sites.n; i++) {
		const struct fm_site *s = &in->profile->sites.items[i];
		if (s->domain == FM_ALLOC_COPY)
			continue;
		uint32_t node = fm_view_node(in->view, s->stack_id), line = g->line_of_node[node], n;
		uint64_t avg_bytes = in->log->blocks.n ? 0 : average_of(h, in->profile, s); // events know better
		add(line ? &h->lines.items[line - 1].f : &h->no_python, s, avg_bytes);
		const uint32_t *self = fm_heap_groups_self(g, node);
		for (int k = 0; k < 2; k++)
			if (self[k] != FM_NO_ID)
				add(&h->functions.items[self[k]].self, s, avg_bytes);
		const uint32_t *chain = fm_heap_groups_chain(g, node, &n);
		for (uint32_t k = 0; k < n; k++)
			add(&h->functions.items[chain[k]].total, s, avg_bytes);
		uint32_t thread = 0; // a site has none: any of its process
		while (thread < in->profile->threads.n &&
		       in->profile->threads.items[thread].process_id != s->process_id)
			thread++;
		fm_vec_push(&h->stacks,
			    (struct fm_heap_stack_row){ .stack_id = s->stack_id,
							.thread_id = thread < in->profile->threads.n ? thread : 0,
							.alloc_bytes = s->alloc_bytes,
							.at_peak_bytes = s->at_peak_bytes });
		h->alloc_bytes += s->alloc_bytes;
		h->live_bytes += s->live_bytes;
		at_peak[s->process_id] += s->at_peak_bytes;
	}
	for (size_t i = 0; i < h->timeline.n; i++)
		highest = FM_MAX(highest, h->timeline.items[i].heap_high_bytes);
	// One process: what its sites held at its peak is the peak. Several: each had its own time, and the timeline knows best, but for what
	// came and went between two looks (a program behind a wrapper script that is over soon).
	highest = in->profile->processes.n > 1 ? highest : 0;
	for (size_t i = 0; i < in->profile->processes.n; i++)
		highest = FM_MAX(highest, at_peak[i]);
	free(at_peak);
	h->peak_bytes = highest;
	h->growth_rate = fm_heap_share(h->live_bytes, h->alloc_bytes);
	limit(&h->no_python, h->peak_bytes);
	for (size_t i = 0; i < h->lines.n; i++)
		limit(&h->lines.items[i].f, h->peak_bytes);
	for (size_t i = 0; i < h->functions.n; i++) {
		limit(&h->functions.items[i].self, h->peak_bytes);
		limit(&h->functions.items[i].total, h->peak_bytes);
	}
}
