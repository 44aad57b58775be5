// SPDX-License-Identifier: Apache-2.0
// Exact mode: the agent counted every allocation by stack. Its sums replace the estimates from
// sampled events, where there are any; how a line's bytes went over time is only known from events,
// but for their average.
#include <stdlib.h>
#include <string.h>

#include "aggregate/heap/parts.h"

static void forget(struct fm_heap_figures *f)
{
	struct fm_heap_figures kept = { .avg_bytes = f->avg_bytes,
					.copy_bytes = f->copy_bytes,
					.copy_var = f->copy_var };
	*f = kept;
}

// One process after the other: the most that any had at one place.
struct turn {
	uint32_t process_id1;
	uint64_t bytes, most_bytes;
};

// Peaks of a line's stacks were at different times: their sum is the highest that the line can have
// held, in processes that lived together.
static void add(struct fm_heap_figures *f, struct turn *t, const struct fm_site *s, uint64_t avg_bytes,
		bool is_together)
{
	if (t->process_id1 != s->process_id + 1)
		*t = (struct turn){ s->process_id + 1, 0, t->most_bytes };
	t->bytes += s->peak_bytes;
	t->most_bytes = FM_MAX(t->most_bytes, t->bytes);
	f->avg_bytes += avg_bytes;
	f->alloc_bytes += s->alloc_bytes;
	f->n_allocs += s->n_allocs;
	f->python_bytes += fm_alloc_is_python(s->domain) ? s->alloc_bytes : 0;
	f->peak_bytes += is_together ? s->peak_bytes : 0;
	f->at_peak_bytes += is_together ? s->at_peak_bytes : 0;
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

static void limit(struct fm_heap_figures *f, const struct turn *t, uint64_t program_peak)
{
	f->peak_bytes = FM_MAX(f->peak_bytes, t->most_bytes);
	f->peak_bytes = FM_MAX(FM_MIN(f->peak_bytes, program_peak), f->at_peak_bytes);
}

static bool lives_at(const struct fm_process *p, uint64_t time_ns)
{
	return p->info.start_ns <= time_ns && (!p->end_ns || p->end_ns >= time_ns);
}

// When the processes that lived held most, each with its own peak: they are gone through at the
// moment before each one's end.
static uint64_t find_fullest_ns(const struct fm_profile *profile, const uint64_t *at_peak)
{
	uint64_t fullest_ns = 0, most = 0;
	for (size_t i = 0; i < profile->processes.n; i++) {
		const struct fm_process *p = &profile->processes.items[i];
		uint64_t time_ns = p->end_ns ? p->end_ns : p->info.start_ns, sum = 0;
		for (size_t k = 0; k < profile->processes.n; k++)
			sum += lives_at(&profile->processes.items[k], time_ns) ? at_peak[k] : 0;
		if (sum > most) {
			most = sum;
			fullest_ns = time_ns;
		}
	}
	return fullest_ns;
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
	for (size_t i = 0; i < h->stacks.n; i++) {
		struct fm_heap_stack_row *row = &h->stacks.items[i];
		row->alloc_bytes = row->at_peak_bytes = row->n_allocs = row->live_bytes = 0;
	}
	h->alloc_bytes = h->live_bytes = 0;
	h->alloc_var = h->peak_var = 0;
	uint64_t highest = 0, *at_peak = fm_alloc((in->profile->processes.n + 1) * sizeof(*at_peak)); // of each process
	for (size_t i = 0; i < in->profile->sites.n; i++)
		if (in->profile->sites.items[i].domain != FM_ALLOC_COPY)
			at_peak[in->profile->sites.items[i].process_id] += in->profile->sites.items[i].at_peak_bytes;
	uint64_t fullest_ns = find_fullest_ns(in->profile, at_peak);
	struct turn no_python = { 0 }, *lines = fm_alloc((h->lines.n + 1) * sizeof(*lines)),
		    *selves = fm_alloc((h->functions.n + 1) * sizeof(*selves)),
		    *totals = fm_alloc((h->functions.n + 1) * sizeof(*totals));
	for (size_t i = 0; i < in->profile->sites.n; i++) {
		const struct fm_site *s = &in->profile->sites.items[i];
		if (s->domain == FM_ALLOC_COPY)
			continue;
		uint32_t node = fm_view_node(in->view, s->stack_id), line = g->line_of_node[node], n;
		uint64_t avg_bytes = in->log->blocks.n ? 0 : average_of(h, in->profile, s); // events know better
		bool is_together = lives_at(&in->profile->processes.items[s->process_id], fullest_ns);
		add(line ? &h->lines.items[line - 1].f : &h->no_python, line ? &lines[line - 1] : &no_python, s,
		    avg_bytes, is_together);
		const uint32_t *self = fm_heap_groups_self(g, node);
		for (int k = 0; k < 2; k++)
			if (self[k] != FM_NO_ID)
				add(&h->functions.items[self[k]].self, &selves[self[k]], s, avg_bytes, is_together);
		const uint32_t *chain = fm_heap_groups_chain(g, node, &n);
		for (uint32_t k = 0; k < n; k++)
			add(&h->functions.items[chain[k]].total, &totals[chain[k]], s, avg_bytes, is_together);
		uint32_t thread = 0; // a site has none: any of its process
		while (thread < in->profile->threads.n &&
		       in->profile->threads.items[thread].process_id != s->process_id)
			thread++;
		fm_vec_push(&h->stacks,
			    (struct fm_heap_stack_row){ .stack_id = s->stack_id,
							.thread_id = thread < in->profile->threads.n ? thread : 0,
							.alloc_bytes = s->alloc_bytes,
							.at_peak_bytes = is_together ? s->at_peak_bytes : 0,
							.n_allocs = s->n_allocs,
							.live_bytes = s->live_bytes });
		h->alloc_bytes += s->alloc_bytes;
		h->live_bytes += s->live_bytes;
	}
	for (size_t i = 0; i < h->timeline.n; i++)
		highest = FM_MAX(highest, h->timeline.items[i].heap_high_bytes);
	// One process: what its sites held at its peak is the peak. Several: each had its own time,
	// and the timeline knows best, but for what came and went between two looks (a program
	// behind a wrapper script that is over soon).
	highest = in->profile->processes.n > 1 ? highest : 0;
	for (size_t i = 0; i < in->profile->processes.n; i++)
		highest = FM_MAX(highest, at_peak[i]);
	free(at_peak);
	h->peak_bytes = highest;
	h->growth_rate = fm_heap_share(h->live_bytes, h->alloc_bytes);
	limit(&h->no_python, &no_python, h->peak_bytes);
	for (size_t i = 0; i < h->lines.n; i++)
		limit(&h->lines.items[i].f, &lines[i], h->peak_bytes);
	for (size_t i = 0; i < h->functions.n; i++) {
		limit(&h->functions.items[i].self, &selves[i], h->peak_bytes);
		limit(&h->functions.items[i].total, &totals[i], h->peak_bytes);
	}
	free(lines);
	free(selves);
	free(totals);
}
