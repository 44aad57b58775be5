// SPDX-License-Identifier: Apache-2.0
// What the tables of queries are made of: one analysis, and what has to be put into order first,
// made when a table asks for it. Lends everything until it is closed.
#pragma once

#include "aggregate/analysis/analysis.h"
#include "aggregate/tree/attribution.h"
#include "aggregate/tree/libraries.h"
#include "render/json/report_json.h"
#include "render/shared/facts.h"

#define FM_QUERY_NO_ROW UINT32_MAX

// A function or line: what it took of time, and of memory; at least one of both is there.
struct fm_query_pair {
	uint32_t of_time, of_heap; // rows of the summary and of the heap, or FM_QUERY_NO_ROW
};

// What ends in one node, over all threads.
struct fm_query_stack {
	uint32_t node;
	uint64_t n_cpu, n_waits; // samples
	struct fm_weight weight;
};

// Waiting of one thread in one node, of one class.
struct fm_query_wait {
	uint32_t thread_id, node;
	uint8_t class;
	uint64_t n, ns;
};

struct fm_query_alloc {
	uint32_t thread_id, node;
	uint64_t bytes[FM_N_HEAP_KINDS];
};

struct fm_query_coverage {
	struct fm_str what, why;
};

struct fm_query_data {
	struct fm_analysis *a;
	const struct fm_summary *summary;
	uint64_t start_ns; // what the times of samples count from
	struct fm_facts facts;
	bool has_facts, has_functions, has_lines, has_stacks, has_waits, has_allocs, has_libraries, has_coverage;
	FM_VEC(struct fm_query_pair) functions;
	FM_VEC(struct fm_query_pair) lines;
	struct fm_weight *self, *total;       // by node; NULL until asked for
	FM_VEC(struct fm_query_stack) stacks; // most CPU time first
	FM_VEC(struct fm_query_wait) waits;   // most waiting first
	FM_VEC(struct fm_query_alloc) allocs; // most bytes first
	struct fm_attribution *payers;        // by node
	struct fm_libraries libraries;
	FM_VEC(struct fm_query_coverage) coverage;
	uint32_t *zone_order; // of the trace's functions
	struct fm_arena arena;
};

void fm_query_data_init(struct fm_query_data *d, struct fm_analysis *a); // a stays the caller's
void fm_query_data_deinit(struct fm_query_data *d);

// Each does its work once.
const struct fm_facts *fm_query_facts(struct fm_query_data *d);
void fm_query_need_functions(struct fm_query_data *d);
void fm_query_need_lines(struct fm_query_data *d);
void fm_query_need_nodes(struct fm_query_data *d);
void fm_query_need_stacks(struct fm_query_data *d);
void fm_query_need_waits(struct fm_query_data *d);
void fm_query_need_allocs(struct fm_query_data *d);
void fm_query_need_libraries(struct fm_query_data *d);
void fm_query_need_coverage(struct fm_query_data *d);

// The node to whose line is attributed what happens in a node, or NULL.
const struct fm_node *fm_query_payer(struct fm_query_data *d, uint32_t node);
