// SPDX-License-Identifier: Apache-2.0
// A capture, read once and counted: all that an output needs.
//
// Events pass once, and who wants them is told then. Who finds out later that it needs them asks
// for a replay (fm_reader_replay).
#pragma once

#include "aggregate/heap/heap.h"
#include "aggregate/tree/summary.h"
#include "aggregate/tally/tally.h"
#include "aggregate/tally/workers.h"
#include "aggregate/trace/trace.h"
#include "aggregate/tree/view.h"

// What is made of the events. An output that shows one thing does not wait for the others.
enum fm_analysis_parts {
	FM_ANALYSIS_TOTALS = 1, // tally
	FM_ANALYSIS_STACKS = 3, // and with it workers, symbolizer, view, heap
	FM_ANALYSIS_CALLS = 4,  // calls
};

struct fm_analysis {
	struct fm_view_options options;
	struct fm_reader *reader; // at its end; lends profile and path
	const char *path;
	const struct fm_profile *profile;
	struct fm_tally tally;
	struct fm_workers *workers;       // whose work native threads do; NULL = nobody's
	struct fm_symbolizer *symbolizer; // NULL: stacks are not there
	struct fm_view view;
	struct fm_heap heap;           // is_there tells whether memory was captured
	struct fm_trace_stats *calls;  // of its trace; NULL = not counted
	struct fm_summary own_summary; // by fm_analysis_summary
	bool has_summary;
	const struct fm_analysis *whole; // lends all but the tally and the summary; NULL = this is the whole
};

// Reads the rest of the file and owns the reader, on failure, too: it is closed then. The observer,
// if there is one, is told of every event on the way. One line in diag on failure; a damaged or
// cut-off file is no failure (profile->damage).
FM_MUST_CHECK enum fm_err fm_analysis_read(struct fm_reader *reader, const struct fm_view_options *options,
					   enum fm_analysis_parts parts, const struct fm_observer *observer,
					   struct fm_analysis **ret, struct fm_diag *diag);
// Of totals, names what they are of. Nothing happens when that was done.
FM_MUST_CHECK enum fm_err fm_analysis_add_stacks(struct fm_analysis *a, struct fm_diag *diag);
void fm_analysis_close(struct fm_analysis *a); // NULL is fine

// The tables of functions, lines, threads and processes; made when they are first asked for.
const struct fm_summary *fm_analysis_summary(struct fm_analysis *a);

// False for samples that were not counted: a replay of a chunk with impossible content may have them.
static inline bool fm_analysis_knows(const struct fm_analysis *a, const struct fm_sample *s)
{
	return s->thread_id < a->tally.threads.n && s->class < FM_N_CLASSES;
}

// The node of a sample of the same file, wherever its thread works for another.
static inline uint32_t fm_analysis_node(const struct fm_analysis *a, const struct fm_sample *s)
{
	return fm_view_node(&a->view, fm_workers_stack(a->workers, s));
}

static inline const struct fm_function *fm_analysis_function(const struct fm_analysis *a, uint32_t function_id)
{
	return fm_symbolizer_function(a->symbolizer, function_id);
}

// Adds memory to what a tree is pruned by (fm_prune_shares): each kind of it is a whole of its own
// beside time. rows: of the heap, or of a range of it. filter: NULL = all threads.
struct fm_filter;
void fm_analysis_add_heap_shares(const struct fm_analysis *a, const struct fm_heap_stack_rows *rows,
				 const struct fm_filter *filter, double *shares);

// True when threads were traced, beside being sampled, or when sums of calls were imported.
static inline bool fm_analysis_has_calls(const struct fm_analysis *a)
{
	return a->profile->call_sums.n || fm_profile_meta(a->profile, "trace_events", (struct fm_str){ "", 0 }).len > 0;
}

// A file without an end may have a trace that it could not say any more.
static inline bool fm_analysis_may_have_trace(const struct fm_analysis *a)
{
	return a->profile->is_truncated || fm_analysis_has_calls(a);
}
