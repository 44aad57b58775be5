// SPDX-License-Identifier: Apache-2.0
// Figures of every line and function, in one walk over the births and deaths in order of time.
#include <stdlib.h>
#include <string.h>

#include "aggregate/heap/parts.h"

// Peaks of functions with their callees take a step for each function on each stack. Beyond this
// many (two seconds of ours, in deep recursion) they are taken at the program's peak only.
#define MAX_TOTAL_STEPS ((uint64_t)1 << 29)

struct tables {
	struct fm_heap *h;
	const struct fm_heap_input *in;
	const struct fm_heap_groups *g;
	struct fm_gauge *lines; // [0] is no Python
	uint8_t *line_bucket;
	struct fm_gauge *self, *total; // by function
	bool has_totals;
};

// One birth or death: so many bytes more (or, wrapping, less).
struct change {
	uint64_t bytes;
	double var;
	bool is_birth;
};

static inline void gauge_step(struct fm_gauge *g, const struct change *c)
{
	g->live += c->bytes;
	g->var += c->var;
	if (c->is_birth && g->live > g->peak) {
		g->peak = g->live;
		g->peak_var = g->var;
	}
}

static void count_birth(struct fm_heap_figures *f, const struct fm_block *b)
{
	f->alloc_bytes += b->weight;
	f->n_allocs += fm_block_n(b);
	f->python_bytes += fm_alloc_is_python(b->domain) ? b->weight : 0;
	f->alloc_var += fm_block_variance(b);
}

static void add_at_peak(struct fm_heap_figures *f, const struct fm_block *b)
{
	f->at_peak_bytes += b->held;
	f->untouched_bytes += b->weight - b->held;
}

static struct fm_heap_figures *line_figures(struct fm_heap *h, uint32_t line)
{
	return line ? &h->lines.items[line - 1].f : &h->no_python;
}

// Fills the line's timeline up to a time with what it held since its last step.
static void fill_timeline(struct tables *t, uint32_t line, unsigned bucket)
{
	if (!line)
		return;
	uint64_t *timeline = t->h->lines.items[line - 1].timeline;
	for (; t->line_bucket[line] < bucket; t->line_bucket[line]++)
		timeline[t->line_bucket[line] + 1] = t->lines[line].live;
}

static void step_line(struct tables *t, uint32_t line, uint64_t time_ns, const struct change *c)
{
	unsigned bucket = fm_heap_bucket(t->h, time_ns, FM_HEAP_LINE_BUCKETS);
	fill_timeline(t, line, bucket);
	gauge_step(&t->lines[line], c);
	if (line) {
		uint64_t *high = &t->h->lines.items[line - 1].timeline[bucket];
		*high = FM_MAX(*high, t->lines[line].live);
	}
}

static void step_functions(struct tables *t, uint32_t node, const struct change *c)
{
	const uint32_t *self = fm_heap_groups_self(t->g, node);
	uint32_t n;
	for (int i = 0; i < 2; i++)
		if (self[i] != FM_NO_ID)
			gauge_step(&t->self[self[i]], c);
	const uint32_t *chain = fm_heap_groups_chain(t->g, node, &n);
	for (uint32_t i = 0; i < n && t->has_totals; i++)
		gauge_step(&t->total[chain[i]], c);
}

// Sums that do not depend on the order of events.
struct sums {
	struct fm_heap_figures f;
	double byte_ns; // bytes * the time they lived
};

static void add_sums(struct fm_heap_figures *to, const struct fm_heap_figures *f)
{
	to->alloc_bytes += f->alloc_bytes;
	to->n_allocs += f->n_allocs;
	to->python_bytes += f->python_bytes;
	to->at_peak_bytes += f->at_peak_bytes;
	to->untouched_bytes += f->untouched_bytes;
	to->live_bytes += f->live_bytes;
	to->avg_bytes += f->avg_bytes;
	to->copy_bytes += f->copy_bytes;
	to->alloc_var += f->alloc_var;
	to->copy_var += f->copy_var;
}

static double lifetime_ns(const struct fm_heap *h, const struct fm_heap_log *log, const struct fm_block *b)
{
	uint64_t end_ns = b->died == FM_NEVER ? h->end_ns : log->steps.items[b->died].time_ns;
	return (double)(end_ns - b->born_ns);
}

// They are added up by node, and dealt out to everything the node stands for.
static void add_by_node(struct tables *t, const struct fm_heap_marks *marks)
{
	const struct fm_heap_log *log = t->in->log;
	struct fm_heap *h = t->h;
	size_t n_nodes = t->in->view->nodes.n;
	double length_ns = FM_MAX((double)(h->end_ns - h->begin_ns), 1.0);
	struct sums *sums = fm_alloc(n_nodes * sizeof(*sums));
	for (size_t i = 0; i < log->blocks.n; i++) {
		const struct fm_block *b = &log->blocks.items[i];
		struct sums *s = &sums[b->node];
		count_birth(&s->f, b);
		s->byte_ns += (double)b->held * lifetime_ns(h, log, b);
		if (marks->n_steps_at_peak && fm_block_lives_after(b, marks->n_steps_at_peak))
			add_at_peak(&s->f, b);
		if (fm_block_lives_after(b, marks->n_steps_settled))
			s->f.live_bytes += b->held;
	}
	for (size_t i = 0; i < log->copies.n; i++) {
		const struct fm_block *b = &log->copies.items[i];
		sums[b->node].f.copy_bytes += b->weight;
		sums[b->node].f.copy_var += fm_block_variance(b);
		h->copy_bytes += b->weight;
	}
	for (uint32_t node = 0; node < n_nodes; node++) {
		if (!t->g->chain_of_node[node])
			continue;
		struct fm_heap_figures *f = &sums[node].f;
		h->untouched_bytes += f->untouched_bytes;
		const uint32_t *self = fm_heap_groups_self(t->g, node);
		uint32_t n;
		f->avg_bytes = fm_heap_bytes_of(sums[node].byte_ns / length_ns);
		add_sums(line_figures(h, t->g->line_of_node[node]), f);
		for (int i = 0; i < 2; i++)
			if (self[i] != FM_NO_ID)
				add_sums(&h->functions.items[self[i]].self, f);
		const uint32_t *chain = fm_heap_groups_chain(t->g, node, &n);
		for (uint32_t i = 0; i < n; i++)
			add_sums(&h->functions.items[chain[i]].total, f);
	}
	free(sums);
}

static void read_gauge(const struct fm_gauge *g, struct fm_heap_figures *f)
{
	f->peak_bytes = g->peak;
	f->peak_var = FM_MAX(g->peak_var, 0.0);
}

static bool totals_are_affordable(const struct fm_heap_input *in, const struct fm_heap_groups *g)
{
	uint64_t n_steps = 0;
	for (size_t i = 0; i < in->log->blocks.n; i++) {
		uint32_t n;
		fm_heap_groups_chain(g, in->log->blocks.items[i].node, &n);
		n_steps += 2 * (uint64_t)n;
	}
	return n_steps <= MAX_TOTAL_STEPS;
}

void fm_heap_tables(struct fm_heap *h, const struct fm_heap_input *in, const struct fm_heap_groups *g,
		    const struct fm_heap_marks *marks)
{
	const struct fm_heap_log *log = in->log;
	uint32_t n_functions = fm_symbolizer_n_functions(in->symbolizer);
	fm_vec_grow_to(&h->functions, n_functions);
	for (uint32_t i = 0; i < n_functions; i++)
		h->functions.items[i].function_id = i;
	struct tables t = { .h = h, .in = in, .g = g, .has_totals = totals_are_affordable(in, g) };
	t.lines = fm_alloc((h->lines.n + 1) * sizeof(*t.lines));
	t.line_bucket = fm_alloc(h->lines.n + 1);
	t.self = fm_alloc((n_functions + 1) * sizeof(*t.self));
	t.total = fm_alloc((n_functions + 1) * sizeof(*t.total));
	for (size_t i = 0; i < log->steps.n; i++) {
		const struct fm_step *step = &log->steps.items[i];
		const struct fm_block *b = &log->blocks.items[step->block & ~FM_STEP_DIES];
		bool dies = step->block & FM_STEP_DIES;
		double var = fm_block_variance(b);
		struct change change = { dies ? -b->held : b->held, dies ? -var : var, !dies };
		step_line(&t, g->line_of_node[b->node], step->time_ns, &change);
		step_functions(&t, b->node, &change);
	}
	add_by_node(&t, marks);
	for (uint32_t i = 0; i <= h->lines.n; i++) {
		fill_timeline(&t, i, FM_HEAP_LINE_BUCKETS - 1);
		read_gauge(&t.lines[i], line_figures(h, i));
	}
	for (uint32_t i = 0; i < n_functions; i++) {
		struct fm_heap_function_row *row = &h->functions.items[i];
		read_gauge(&t.self[i], &row->self);
		read_gauge(&t.total[i], &row->total);
		row->total.peak_bytes = FM_MAX(row->total.peak_bytes, row->total.at_peak_bytes);
	}
	free(t.lines);
	free(t.line_bucket);
	free(t.self);
	free(t.total);
}

static int compare_peak_lines(const void *pa, const void *pb)
{
	const struct fm_heap_peak_line *a = pa, *b = pb;
	if (a->bytes != b->bytes)
		return (b->bytes > a->bytes) - (b->bytes < a->bytes);
	return a->file_id != b->file_id ? (a->file_id > b->file_id) - (a->file_id < b->file_id)
					: (a->line > b->line) - (a->line < b->line);
}

void fm_heap_peak_lines(struct fm_heap *h, const struct fm_heap_input *in, const struct fm_heap_groups *g,
			const struct fm_heap_marks *marks)
{
	uint64_t *bytes = fm_alloc((h->lines.n + 1) * sizeof(*bytes));
	for (uint32_t m = 0; m < marks->n; m++) {
		memset(bytes, 0, (h->lines.n + 1) * sizeof(*bytes));
		for (size_t i = 0; i < in->log->blocks.n; i++) {
			const struct fm_block *b = &in->log->blocks.items[i];
			if (fm_block_lives_after(b, marks->items[m].n_steps))
				bytes[g->line_of_node[b->node]] += b->held;
		}
		struct fm_heap_peak peak = { marks->items[m].time_ns, marks->items[m].bytes, (uint32_t)h->peak_lines.n,
					     0 };
		for (uint32_t i = 0; i <= h->lines.n; i++) {
			if (!bytes[i])
				continue;
			const struct fm_heap_line_row *row = i ? &h->lines.items[i - 1] : NULL;
			fm_vec_push(&h->peak_lines,
				    (struct fm_heap_peak_line){ row ? row->file_id : FM_NO_ID, row ? row->line : 0,
								row ? row->function_id : FM_NO_ID, bytes[i] });
		}
		peak.n_lines = (uint32_t)h->peak_lines.n - peak.first_line;
		if (peak.n_lines)
			qsort(&h->peak_lines.items[peak.first_line], peak.n_lines, sizeof(*h->peak_lines.items),
			      compare_peak_lines);
		fm_vec_push(&h->peaks, peak);
	}
	free(bytes);
}
