// SPDX-License-Identifier: Apache-2.0
// What a trace says: every function's calls, who called whom, lines, marks.
#include "render/query/columns.h"

#define NO_TRACE "the capture has no trace in it; capture with --trace, or by python -m fathom"

static const struct fm_column zone_columns[] = {
	FM_INT("id", "number of the function or zone in this trace"),
	FM_TEXT("name", "of the function, or what the program called the zone"),
	FM_TEXT("file", "where it is; empty where that is not known"),
	FM_INT("line", "where it begins; 0: not known"),
	FM_TEXT("kind", "python, native, zone or unknown (events were lost here)"),
	FM_INT("calls", "how often it was called"),
	FM_INT("recursive_calls", "of these: while it was on the stack already"),
	FM_REAL("total_s", "time in which it was on the stack, on the clock, recursion counted once"),
	FM_REAL("own_s", "time in which it was the innermost one"),
	FM_REAL("mean_s", "duration of a call, or of one stretch of a generator: the mean"),
	FM_REAL("min_s", "the shortest"),
	FM_REAL("max_s", "the longest"),
	FM_REAL("p50_s", "the median, right to 7 %"),
	FM_REAL("p90_s", "90 % take no longer"),
	FM_REAL("p99_s", "99 % take no longer"),
};

static uint64_t count_zones(struct fm_query_data *d)
{
	const struct fm_trace_stats *s = d->a->calls;
	if (s && !d->zone_order)
		d->zone_order = fm_trace_sorted(s, FM_TRACE_BY_OWN);
	return s ? s->functions.n : 0;
}

static void zone_row(struct fm_query_data *d, uint64_t i, struct fm_row *r)
{
	const struct fm_traced_function *f = &d->a->calls->functions.items[d->zone_order[i]];
	fm_row_id(r, d->zone_order[i]);
	fm_row_text(r, f->name);
	fm_row_text(r, f->file);
	fm_row_u64(r, f->line);
	fm_row_text(r, fm_str_of(fm_trace_kind_names[f->kind]));
	fm_row_u64(r, f->n_calls);
	fm_row_u64(r, f->n_recursive);
	fm_row_seconds(r, f->total_ns);
	fm_row_seconds(r, f->own_ns);
	fm_row_seconds(r, fm_durations_mean_ns(&f->spans));
	fm_row_seconds(r, f->spans.min_ns);
	fm_row_seconds(r, f->spans.max_ns);
	fm_row_seconds(r, fm_durations_percentile_ns(&f->spans, 0.5));
	fm_row_seconds(r, fm_durations_percentile_ns(&f->spans, 0.9));
	fm_row_seconds(r, fm_durations_percentile_ns(&f->spans, 0.99));
}

static const struct fm_column call_columns[] = {
	FM_INT_OR_NULL("caller_id", "zones.id; NULL: nothing traced called it"),
	FM_INT("callee_id", "zones.id"),
	FM_TEXT_OR_NULL("caller", "name of the caller"),
	FM_TEXT("callee", "name of what it called"),
	FM_INT("calls", "how often"),
	FM_INT("recursive_calls", "of these: while the callee was on the stack already"),
	FM_REAL("total_s", "time of the callee when called by this caller"),
	FM_REAL("own_s", "the same without what it called"),
};

static uint64_t count_calls(struct fm_query_data *d)
{
	return d->a->calls ? d->a->calls->edges.n : 0;
}

static void call_row(struct fm_query_data *d, uint64_t i, struct fm_row *r)
{
	const struct fm_trace_stats *s = d->a->calls;
	const struct fm_trace_edge *e = &s->edges.items[i];
	fm_row_id(r, e->caller);
	fm_row_id(r, e->callee);
	if (e->caller == FM_NO_ID)
		fm_row_null(r);
	else
		fm_row_text(r, s->functions.items[e->caller].name);
	fm_row_text(r, s->functions.items[e->callee].name);
	fm_row_u64(r, e->n_calls);
	fm_row_u64(r, e->n_recursive);
	fm_row_seconds(r, e->total_ns);
	fm_row_seconds(r, e->own_ns);
}

static const struct fm_column traced_line_columns[] = {
	FM_INT("zone_id", "zones.id of its function"),
	FM_TEXT("file", "source file"),
	FM_INT("line", "number of the line"),
	FM_TEXT("function", "its function"),
	FM_INT("hits", "how often it ran"),
	FM_REAL("total_s", "time in the line and in what it called, recursion counted once"),
	FM_REAL("own_s", "the same without what it called"),
};

static uint64_t count_traced_lines(struct fm_query_data *d)
{
	return d->a->calls ? d->a->calls->lines.n : 0;
}

static void traced_line_row(struct fm_query_data *d, uint64_t i, struct fm_row *r)
{
	const struct fm_trace_line *line = &d->a->calls->lines.items[i];
	const struct fm_traced_function *f = &d->a->calls->functions.items[line->function];
	fm_row_id(r, line->function);
	fm_row_text(r, f->file);
	fm_row_u64(r, line->line);
	fm_row_text(r, f->name);
	fm_row_u64(r, line->n_hits);
	fm_row_seconds(r, line->total_ns);
	fm_row_seconds(r, line->own_ns);
}

static const struct fm_column mark_columns[] = {
	FM_REAL("t_s", "when, since the program's start"),
	FM_INT("thread_id", "threads.id"),
	FM_TEXT("text", "what the program said"),
};

static uint64_t count_marks(struct fm_query_data *d)
{
	return d->a->calls ? d->a->calls->marks.n : 0;
}

static void mark_row(struct fm_query_data *d, uint64_t i, struct fm_row *r)
{
	const struct fm_trace_mark *mark = &d->a->calls->marks.items[i];
	fm_row_real(r, mark->time_ns > d->start_ns ? fm_seconds(mark->time_ns - d->start_ns) : 0);
	fm_row_id(r, mark->thread_id);
	fm_row_text(r, mark->name == FM_NO_ID ? FM_STR_LIT("") : d->a->profile->trace_names.items[mark->name].name);
}

const struct fm_query_table fm_query_trace_tables[] = {
	{ "zones", "of a trace: functions and zones with their calls; most own time first", FM_COLUMNS(zone_columns),
	  500, FM_ANALYSIS_CALLS, count_zones, zone_row, .lacks = NO_TRACE },
	{ "calls", "of a trace: who called whom", FM_COLUMNS(call_columns), 2000, FM_ANALYSIS_CALLS, count_calls,
	  call_row, .lacks = NO_TRACE },
	{ "traced_lines", "of a trace of lines: how often each ran, and for how long", FM_COLUMNS(traced_line_columns),
	  500, FM_ANALYSIS_CALLS, count_traced_lines, traced_line_row,
	  .lacks = "the capture has no lines in its trace; capture with python -m fathom -l" },
	{ "marks", "what the program marked with fathom.mark()", FM_COLUMNS(mark_columns), 100, FM_ANALYSIS_CALLS,
	  count_marks, mark_row },
	{ 0 },
};
