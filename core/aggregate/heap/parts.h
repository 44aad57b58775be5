// SPDX-License-Identifier: Apache-2.0
// The steps of fm_heap_build(), one file each. Not for other rooms.
#pragma once

#include "aggregate/heap/heap.h"
#include "aggregate/heap/leak_test.h"

// Blocks by line and by function: the places whose figures are kept.

// One running sum over time.
struct fm_gauge {
	uint64_t live, peak;
	double var, peak_var;
};

struct fm_heap_groups {
	uint32_t *line_of_node;      // row of the lines table + 1; 0 = no Python
	uint32_t *chain_of_node;     // place in chains + 1; 0 = no event ends in this node
	uint32_t (*self_of_node)[2]; // see fm_heap_groups_self
	bool *is_imported_of_node;   // what an import makes is no leak
	FM_VEC(uint32_t) chains;     // {n, n distinct function ids} each
	struct fm_attribution *payers;
};

void fm_heap_groups_init(struct fm_heap_groups *g, struct fm_heap *h, const struct fm_heap_input *in);
void fm_heap_groups_deinit(struct fm_heap_groups *g);

// Functions on the stack, each once; *ret_n of them.
static inline const uint32_t *fm_heap_groups_chain(const struct fm_heap_groups *g, uint32_t node, uint32_t *ret_n)
{
	uint32_t at = g->chain_of_node[node];
	*ret_n = at ? g->chains.items[at - 1] : 0;
	return at ? &g->chains.items[at] : NULL;
}
// The functions that a block at this node is charged to: the innermost Python one, and the
// innermost shown if that is native. FM_NO_ID = none.
static inline const uint32_t *fm_heap_groups_self(const struct fm_heap_groups *g, uint32_t node)
{
	return g->self_of_node[node];
}

// Where the whole program's live bytes were highest: the number of steps done then, and the
// distinct high-water marks.
#define FM_HEAP_MAX_PEAKS 8
struct fm_heap_marks {
	uint32_t n_steps_at_peak; // 0 = there was none
	uint32_t n_steps_settled; // until fm_heap.settled_ns
	uint32_t n;
	struct fm_heap_mark {
		uint32_t n_steps;
		uint64_t time_ns, bytes;
	} items[FM_HEAP_MAX_PEAKS]; // highest first
};

// aggregate/heap/curve.c: the program as a whole over time. Fills totals, timeline, slope; marks.
void fm_heap_curve(struct fm_heap *h, const struct fm_heap_input *in, struct fm_heap_marks *ret);
// aggregate/heap/tables.c: lines, functions, no_python; rows stay in the order of the groups.
void fm_heap_tables(struct fm_heap *h, const struct fm_heap_input *in, const struct fm_heap_groups *g,
		    const struct fm_heap_marks *marks);
void fm_heap_peak_lines(struct fm_heap *h, const struct fm_heap_input *in, const struct fm_heap_groups *g,
			const struct fm_heap_marks *marks);
// aggregate/heap/leaks.c
void fm_heap_leaks(struct fm_heap *h, struct fm_heap_log *log, const struct fm_heap_input *in,
		   const struct fm_heap_groups *g);
void fm_heap_leaks_sort(struct fm_heap *h);
// What is to be said of a place whose answer this is, of whose bytes that many are mappings. A library's own allocator
// maps its pools in its own threads, and keeps what it gets back.
enum fm_leak_answer fm_heap_answer(const struct fm_heap *h, enum fm_leak_answer answer, uint32_t group,
				   double mapped_bytes, double all_bytes);
void fm_heap_doubt(struct fm_heap *h, enum fm_leak_answer answer, const struct fm_heap_leak_row *place, double bytes);
// aggregate/heap/histories.c: timelines of lines, and leaks, where there are sites and no events.
// After fm_heap_sites().
void fm_heap_histories(struct fm_heap *h, const struct fm_heap_input *in, const struct fm_heap_groups *g);
// aggregate/heap/stacks.c: one row for each distinct stack and thread.
void fm_heap_stacks(struct fm_heap *h, const struct fm_heap_input *in, const struct fm_heap_marks *marks);
// aggregate/heap/sites.c: figures of exact mode take the place of estimates.
void fm_heap_sites(struct fm_heap *h, const struct fm_heap_input *in, const struct fm_heap_groups *g);
// aggregate/heap/resident.c
void fm_heap_resident(struct fm_heap *h, const struct fm_heap_input *in);

static inline uint64_t fm_heap_bytes_of(double bytes)
{
	return bytes > 0 ? bytes < 1e19 ? (uint64_t)(bytes + 0.5) : (uint64_t)1e19 : 0;
}
static inline double fm_heap_share(uint64_t part, uint64_t whole)
{
	return whole ? (double)FM_MIN(part, whole) / (double)whole : 0;
}
// Which of n equal parts of the run a time is in.
static inline unsigned fm_heap_bucket(const struct fm_heap *h, uint64_t time_ns, unsigned n)
{
	if (time_ns <= h->begin_ns || h->end_ns <= h->begin_ns)
		return 0;
	double at = (double)(time_ns - h->begin_ns) / (double)(h->end_ns - h->begin_ns) * n;
	return at < n ? (unsigned)at : n - 1;
}
