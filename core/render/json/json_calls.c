// SPDX-License-Identifier: Apache-2.0
// "calls" of the report for machines: what a trace says, every function, line and mark.
#include "render/json/report_json.h"

#include <stdlib.h>

#include "aggregate/trace/trace.h"

static void write_seconds(struct fm_json *j, const char *key, uint64_t ns)
{
	fm_json_real(j, key, (double)ns * 1e-9);
}

static void write_name(struct fm_json *j, const struct fm_traced_function *f)
{
	fm_json_str(j, "name", f->name);
	fm_json_str(j, "file", f->file);
	fm_json_u64(j, "line", f->line);
}

static void write_callers(struct fm_json *j, const struct fm_trace_stats *s, const uint32_t *next, uint32_t at)
{
	fm_json_array(j, "callers");
	for (; at; at = next[at - 1]) {
		const struct fm_trace_edge *e = &s->edges.items[at - 1];
		if (e->caller == FM_NO_ID)
			continue;
		fm_json_object(j, NULL);
		write_name(j, &s->functions.items[e->caller]);
		fm_json_u64(j, "calls", e->n_calls);
		write_seconds(j, "total_s", e->total_ns);
		write_seconds(j, "own_s", e->own_ns);
		fm_json_end(j);
	}
	fm_json_end(j);
}

// null: of these calls only sums are known.
static void write_durations(struct fm_json *j, const struct fm_traced_function *f)
{
	const struct {
		const char *key;
		uint64_t ns;
	} figures[] = {
		{ "mean_s", fm_durations_mean_ns(&f->spans) },
		{ "min_s", f->spans.min_ns },
		{ "max_s", f->spans.max_ns },
		{ "p50_s", fm_durations_percentile_ns(&f->spans, 0.5) },
		{ "p90_s", fm_durations_percentile_ns(&f->spans, 0.9) },
		{ "p99_s", fm_durations_percentile_ns(&f->spans, 0.99) },
	};
	for (size_t i = 0; i < FM_ARRAY_LEN(figures); i++)
		if (f->spans.n || !f->n_calls)
			write_seconds(j, figures[i].key, figures[i].ns);
		else
			fm_json_null(j, figures[i].key);
}

static void write_function(struct fm_json *j, const struct fm_traced_function *f)
{
	write_name(j, f);
	fm_json_str(j, "kind", fm_str_of(fm_trace_kind_names[f->kind]));
	fm_json_u64(j, "calls", f->n_calls);
	fm_json_u64(j, "recursive_calls", f->n_recursive);
	write_seconds(j, "total_s", f->total_ns);
	write_seconds(j, "own_s", f->own_ns);
	write_durations(j, f);
}

static void write_edges(struct fm_json *j, const char *key, const struct fm_trace_stats *s, uint32_t function,
			bool is_callers, size_t n_most)
{
	size_t n;
	const struct fm_trace_edge **edges = fm_trace_edges_of(s, function, is_callers, &n);
	fm_json_array(j, key);
	for (size_t i = 0; i < FM_MIN(n, n_most); i++) {
		const struct fm_trace_edge *e = edges[i];
		fm_json_newline(j);
		fm_json_object(j, NULL);
		write_name(j, &s->functions.items[is_callers ? e->caller : e->callee]);
		fm_json_u64(j, "calls", e->n_calls);
		write_seconds(j, "total_s", e->total_ns);
		write_seconds(j, "own_s", e->own_ns);
		fm_json_end(j);
	}
	fm_json_end(j);
	free(edges);
}

void fm_json_call(struct fm_json *j, const char *key, const struct fm_trace_stats *s, uint32_t function, size_t n_most)
{
	fm_json_object(j, key);
	write_function(j, &s->functions.items[function]);
	write_edges(j, "callers", s, function, true, n_most);
	write_edges(j, "callees", s, function, false, n_most);
	fm_json_end(j);
}

static void write_functions(struct fm_json *j, const struct fm_trace_stats *s)
{
	uint32_t *order = fm_trace_sorted(s, FM_TRACE_BY_OWN);
	uint32_t *next = fm_alloc((s->edges.n + 1) * sizeof(*next)),
		 *first = fm_alloc((s->functions.n + 1) * sizeof(*first));
	for (uint32_t i = 0; i < s->edges.n; i++) { // chained by callee: which one is the next, + 1
		next[i] = first[s->edges.items[i].callee];
		first[s->edges.items[i].callee] = i + 1;
	}
	fm_json_array(j, "functions");
	for (size_t i = 0; i < s->functions.n; i++) {
		fm_json_newline(j);
		fm_json_object(j, NULL);
		write_function(j, &s->functions.items[order[i]]);
		write_callers(j, s, next, first[order[i]]);
		fm_json_end(j);
	}
	fm_json_end(j);
	free(order);
	free(next);
	free(first);
}

static void write_threads(struct fm_json *j, const struct fm_trace_stats *s)
{
	fm_json_array(j, "threads");
	for (size_t i = 0; i < s->threads.n; i++) {
		const struct fm_traced_thread *t = &s->threads.items[i];
		if (!t->n_events || i >= s->profile->threads.n)
			continue;
		const struct fm_thread *thread = &s->profile->threads.items[i];
		fm_json_object(j, NULL);
		fm_json_u64(j, "pid", s->profile->processes.items[thread->process_id].info.pid);
		fm_json_u64(j, "tid", thread->tid);
		fm_json_u64(j, "calls", t->n_calls);
		fm_json_u64(j, "lost_events", t->n_lost);
		write_seconds(j, "traced_s", t->region_ns);
		write_seconds(j, "outside_s", t->outside_ns);
		fm_json_end(j);
	}
	fm_json_end(j);
}

static void write_lines(struct fm_json *j, const struct fm_trace_stats *s)
{
	fm_json_array(j, "lines");
	for (size_t i = 0; i < s->lines.n; i++) {
		const struct fm_trace_line *line = &s->lines.items[i];
		fm_json_newline(j);
		fm_json_object(j, NULL);
		fm_json_str(j, "file", s->functions.items[line->function].file);
		fm_json_u64(j, "line", line->line);
		fm_json_str(j, "function", s->functions.items[line->function].name);
		fm_json_u64(j, "hits", line->n_hits);
		write_seconds(j, "total_s", line->total_ns);
		write_seconds(j, "own_s", line->own_ns);
		fm_json_end(j);
	}
	fm_json_end(j);
}

static void write_marks(struct fm_json *j, const struct fm_trace_stats *s)
{
	uint64_t origin_ns = s->profile->processes.n ? s->profile->processes.items[0].info.start_ns : 0;
	fm_json_array(j, "marks");
	for (size_t i = 0; i < s->marks.n; i++) {
		const struct fm_trace_mark *mark = &s->marks.items[i];
		fm_json_object(j, NULL);
		fm_json_str(j, "text",
			    mark->name == FM_NO_ID ? FM_STR_LIT("") : s->profile->trace_names.items[mark->name].name);
		fm_json_real(j, "t_s", mark->time_ns > origin_ns ? (double)(mark->time_ns - origin_ns) * 1e-9 : 0);
		fm_json_u64(j, "tid",
			    mark->thread_id < s->profile->threads.n ? s->profile->threads.items[mark->thread_id].tid
								    : 0);
		fm_json_end(j);
	}
	fm_json_end(j);
}

void fm_json_calls(struct fm_json *j, const struct fm_trace_stats *s)
{
	fm_json_object(j, "calls");
	fm_json_u64(j, "calls", s->n_calls);
	fm_json_u64(j, "lost_events", s->n_lost);
	if (s->unit.len)
		fm_json_str(j, "unit", s->unit);
	write_threads(j, s);
	write_functions(j, s);
	write_lines(j, s);
	write_marks(j, s);
	fm_json_end(j);
	fm_json_newline(j);
}
