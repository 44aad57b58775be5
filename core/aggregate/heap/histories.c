// SPDX-License-Identifier: Apache-2.0
// Exact mode without a log: nothing is known of single blocks, but what each site had allocated and
// held at some times. That is enough for a line's timeline, and for a judgement on leaks that takes
// the worst case for the best: a free always ends the oldest block.
#include <math.h>
#include <stdlib.h>

#include "aggregate/heap/parts.h"
#include "aggregate/heap/leak_test.h"

struct histories {
	struct fm_heap *h;
	const struct fm_heap_input *in;
	const struct fm_heap_groups *g;
	struct fm_map stack_rows; // stack -> row of h->stacks + 1
	struct leak_blocks {
		struct fm_leak_block *items;
		size_t n, cap;
	} blocks; // of the group that is judged
	struct member {
		uint32_t group, history;
	} * members;
	size_t n_members;
};

static const struct fm_history_point *points_of(const struct histories *c, const struct fm_site_history *history)
{
	return &c->in->profile->history_points.items[history->first];
}

static double seconds_in(const struct fm_heap *h, uint64_t time_ns)
{
	return time_ns > h->begin_ns ? (double)(time_ns - h->begin_ns) * 1e-9 : 0;
}

// The highest that was seen in each part of the run, or what was held since before.
static void draw(struct histories *c, const struct fm_site_history *history, uint64_t *timeline)
{
	const struct fm_history_point *points = points_of(c, history);
	uint64_t high[FM_HEAP_LINE_BUCKETS] = { 0 }, held = 0;
	const struct fm_process *process = &c->in->profile->processes.items[history->process_id];
	unsigned end = process->end_ns ? fm_heap_bucket(c->h, process->end_ns, FM_HEAP_LINE_BUCKETS)
				       : FM_HEAP_LINE_BUCKETS - 1;
	uint32_t i = 0;
	for (unsigned bucket = 0; bucket <= end; bucket++) {
		high[bucket] = held;
		for (; i < history->n && fm_heap_bucket(c->h, points[i].time_ns, FM_HEAP_LINE_BUCKETS) <= bucket; i++) {
			held = points[i].live_bytes;
			high[bucket] = FM_MAX(high[bucket], held);
		}
		timeline[bucket] += high[bucket];
	}
}

static void limit_timelines(struct fm_heap *h)
{
	for (size_t i = 0; i < h->lines.n; i++)
		for (unsigned k = 0; k < FM_HEAP_LINE_BUCKETS; k++)
			h->lines.items[i].timeline[k] =
				FM_MIN(h->lines.items[i].timeline[k], h->lines.items[i].f.peak_bytes);
}

// Bytes that were born between two looks and are not freed yet.
struct cohort {
	double born_s, bytes;
};

static void add_block(struct histories *c, double born_s, double freed_s, double bytes)
{
	if (bytes > 0)
		fm_vec_push(&c->blocks, (struct fm_leak_block){ born_s, freed_s, bytes, bytes, bytes });
}

// A history as blocks, up to a time. Each free ends the oldest: no other order leaves less that is
// old.
static void replay(struct histories *c, const struct fm_site_history *history, double end_s)
{
	const struct fm_history_point *points = points_of(c, history);
	struct cohort *cohorts = fm_alloc((history->n + 1) * sizeof(*cohorts));
	uint32_t oldest = 0, n = 0;
	struct fm_history_point last = { 0 };
	for (uint32_t i = 0; i < history->n; i++) {
		double now_s = seconds_in(c->h, points[i].time_ns);
		if (now_s > end_s)
			break;
		double born = (double)points[i].alloc_bytes - (double)last.alloc_bytes;
		double freed = born - ((double)points[i].live_bytes - (double)last.live_bytes);
		last = points[i];
		cohorts[n++] = (struct cohort){ now_s, FM_MAX(born, 0.0) };
		for (; freed > 0 && oldest < n; oldest += cohorts[oldest].bytes <= 0) {
			double part = FM_MIN(freed, cohorts[oldest].bytes);
			add_block(c, cohorts[oldest].born_s, now_s, part);
			cohorts[oldest].bytes -= part;
			freed -= part;
		}
	}
	for (; oldest < n; oldest++)
		add_block(c, cohorts[oldest].born_s, INFINITY, cohorts[oldest].bytes);
	free(cohorts);
}

static uint32_t group_of(const struct histories *c, const struct fm_site_history *history)
{
	uint32_t node = fm_view_node(c->in->view, history->stack_id), line = c->g->line_of_node[node];
	if (line)
		return line - 1;
	return (uint32_t)c->h->lines.n + (node ? 1 + c->in->view->nodes.items[node].function_id : 0);
}

static int compare_members(const void *pa, const void *pb)
{
	const struct member *a = pa, *b = pb;
	return a->group != b->group ? (a->group > b->group) - (a->group < b->group)
				    : (a->history > b->history) - (a->history < b->history);
}

// Blocks count by their bytes, and as many as there were in all.
static void set_counts(struct histories *c, const struct fm_heap_figures *f)
{
	double bytes = 0, n = f ? (double)f->n_allocs : 0;
	for (size_t i = 0; i < c->blocks.n; i++)
		bytes += c->blocks.items[i].weight;
	if (!f || bytes < (double)f->alloc_bytes) // what is not followed has blocks of its own
		n = f && f->alloc_bytes ? n * bytes / (double)f->alloc_bytes : (double)c->blocks.n;
	for (size_t i = 0; i < c->blocks.n; i++)
		c->blocks.items[i].n = bytes > 0 ? c->blocks.items[i].weight / bytes * n : 0;
}

static void mark_leaked(struct histories *c, const struct member *m, double end_s, double min_age_s)
{
	const struct fm_site_history *history = &c->in->profile->histories.items[m->history];
	double bytes = 0;
	c->blocks.n = 0;
	replay(c, history, end_s);
	for (size_t i = 0; i < c->blocks.n; i++)
		if (c->blocks.items[i].freed_s > end_s && c->blocks.items[i].born_s <= end_s - min_age_s)
			bytes += c->blocks.items[i].weight;
	bool is_new;
	uint64_t *row = fm_map_at(&c->stack_rows, history->stack_id, &is_new);
	if (!is_new && *row)
		c->h->stacks.items[*row - 1].leaked_bytes += fm_heap_bytes_of(bytes);
}

static void judge(struct histories *c, const struct member *first, size_t n)
{
	struct fm_heap *h = c->h;
	double end_s = seconds_in(h, h->settled_ns), all_bytes = 0, mapped_bytes = 0;
	const struct fm_heap_line_row *line = first->group < h->lines.n ? &h->lines.items[first->group] : NULL;
	struct fm_leak_verdict v;
	c->blocks.n = 0;
	for (size_t i = 0; i < n; i++) {
		const struct fm_site_history *history = &c->in->profile->histories.items[first[i].history];
		uint64_t end_ns = c->in->profile->processes.items[history->process_id].end_ns;
		// What died with its process was neither freed nor kept.
		size_t before = c->blocks.n;
		if (!end_ns || seconds_in(h, end_ns) >= end_s)
			replay(c, history, end_s);
		for (size_t k = before; k < c->blocks.n; k++) {
			all_bytes += c->blocks.items[k].weight;
			mapped_bytes += history->domain == FM_ALLOC_MMAP ? c->blocks.items[k].weight : 0;
		}
	}
	set_counts(c, line ? &line->f : NULL);
	struct fm_heap_leak_row row = { .function_id =
						line ? line->function_id : first->group - (uint32_t)h->lines.n - 1,
					.file_id = line ? line->file_id : FM_NO_ID,
					.line = line ? line->line : 0,
					.types = { "", 0 } };
	enum fm_leak_answer answer =
		c->blocks.n ? fm_leak_test(c->blocks.items, c->blocks.n, 0, end_s, &v) : FM_LEAK_NO;
	if (answer == FM_LEAK_NO && c->blocks.n)
		answer = fm_leak_doubt_sums(c->blocks.items, c->blocks.n, 0, end_s, &v);
	answer = fm_heap_answer(h, answer, first->group, mapped_bytes, all_bytes);
	if (answer != FM_LEAK_YES) {
		fm_heap_doubt(h, answer, &row, answer ? v.bytes : 0);
		return;
	}
	for (size_t i = 0; i < n; i++)
		mark_leaked(c, &first[i], end_s, v.min_age_s);
	row.likelihood = v.likelihood;
	row.velocity_bytes_s = v.velocity;
	row.velocity_plus_minus_bytes_s = v.velocity_plus_minus;
	row.bytes = fm_heap_bytes_of(v.bytes);
	fm_vec_push(&h->leaks, row);
}

static void find_leaks(struct histories *c)
{
	if (seconds_in(c->h, c->h->settled_ns) < FM_LEAK_MIN_DOUBT_RUN_S || !c->n_members)
		return;
	for (size_t i = 0; i < c->h->stacks.n; i++) {
		bool is_new;
		uint64_t *row = fm_map_at(&c->stack_rows, c->h->stacks.items[i].stack_id, &is_new);
		if (is_new || c->h->stacks.items[i].alloc_bytes)
			*row = i + 1;
	}
	qsort(c->members, c->n_members, sizeof(*c->members), compare_members);
	for (size_t i = 0, k; i < c->n_members; i += k) {
		for (k = 1; i + k < c->n_members && c->members[i + k].group == c->members[i].group;)
			k++;
		if (c->members[i].group != c->h->lines.n) // these have no frame at all to be named by
			judge(c, &c->members[i], k);
	}
	fm_heap_leaks_sort(c->h);
}

void fm_heap_histories(struct fm_heap *h, const struct fm_heap_input *in, const struct fm_heap_groups *g)
{
	const struct fm_profile *profile = in->profile;
	struct histories c = { .h = h, .in = in, .g = g };
	c.members = fm_alloc((profile->histories.n + 1) * sizeof(*c.members));
	for (uint32_t i = 0; i < profile->histories.n; i++) {
		const struct fm_site_history *history = &profile->histories.items[i];
		uint32_t line = g->line_of_node[fm_view_node(in->view, history->stack_id)];
		if (!history->n || history->domain == FM_ALLOC_COPY)
			continue;
		if (!g->is_imported_of_node[fm_view_node(in->view, history->stack_id)])
			c.members[c.n_members++] = (struct member){ group_of(&c, history), i };
		if (line)
			draw(&c, history, h->lines.items[line - 1].timeline);
	}
	limit_timelines(h);
	find_leaks(&c);
	fm_map_deinit(&c.stack_rows);
	fm_vec_deinit(&c.blocks);
	free(c.members);
}
