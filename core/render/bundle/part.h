// SPDX-License-Identifier: Apache-2.0
// What the files of the bundle share: the tables being built.
#pragma once

#include "aggregate/tree/libraries.h"
#include "aggregate/tree/prune.h"
#include "aggregate/analysis/timeline.h"
#include "aggregate/analysis/zone_spans.h"
#include "render/bundle/bundle.h"
#include "render/bundle/columns.h"
#include "render/bundle/string_table.h"

struct fm_bundle_heap_row {
	uint32_t node, thread;
	uint64_t bytes[4]; // allocated, at the peak, leaked, copied
};

enum { FM_BUNDLE_CALL = 0, FM_BUNDLE_ZONE = 1 }; // what.kind

struct fm_bundle_calls {
	uint32_t function_id;
	uint64_t n_calls, n_spans, spans_ns, min_ns, max_ns, own_ns, total_ns;
};

struct fm_bundle {
	struct fm_analysis *a; // counted under the filter
	const struct fm_bundle_options *options;
	const struct fm_bundle_limits *limits;
	uint64_t start_ns;
	const struct fm_summary *summary;
	const struct fm_summary *whole; // without the filter: whose code a function is must not depend on a range
	struct fm_libraries libraries;
	struct fm_pruned tree;
	struct fm_string_table text;
	struct fm_columns columns;
	// Functions and files get their numbers when the first row names them.
	uint32_t *function_index; // by function id: index + 1
	FM_VEC(uint32_t) functions;
	struct fm_map file_index; // file id -> index + 1
	FM_VEC(uint32_t) files;   // a function id of each
	struct fm_timeline timeline;
	const struct fm_heap_log *memory;             // of the whole capture
	const struct fm_heap_stack_rows *heap_stacks; // under the filter
	FM_VEC(struct fm_bundle_heap_row) heap_rows;  // of the kept tree
	const struct fm_zones *zones;                 // NULL = none
	struct fm_zones own_zones;                    // when nobody lent them
	struct fm_zone_spans spans;
	uint32_t zone_pixels;                 // that the spans are made for; 0 = every zone is one
	uint32_t *label_functions;            // by what of the zones: function id, or FM_NO_ID
	FM_VEC(struct fm_bundle_calls) calls; // of the trace
	struct fm_map call_index;             // function id -> calls + 1
	size_t n_functions_left_out, n_lines_left_out;
	uint64_t n_values_left_out; // of counters
	bool lacks_disassembler;    // there would be machine code to show
	double block_grain_s;       // of the times of blocks; 0 = there are none
	double block_step_s;        // how closely they are known, as a mean over bytes
};

uint32_t fm_bundle_function(struct fm_bundle *b, uint32_t function_id);
uint32_t fm_bundle_file(struct fm_bundle *b, uint32_t function_id);

void fm_bundle_add_tree(struct fm_bundle *b);    // node, cell, edge: render/bundle/tree.c
void fm_bundle_add_samples(struct fm_bundle *b); // sample, from the timeline
void fm_bundle_add_people(struct fm_bundle *b);  // process, thread: render/bundle/processes.c
void fm_bundle_add_rows(struct fm_bundle *b);    // func_row, line: render/bundle/rows.c
void fm_bundle_add_memory(struct fm_bundle *b);  // heap, memory, leak: render/bundle/memory.c
void fm_bundle_add_blocks(struct fm_bundle *b);  // block: render/bundle/blocks.c
void fm_bundle_add_code(struct fm_bundle *b);    // code, instruction: render/bundle/code.c
void fm_bundle_add_trace(struct fm_bundle *b);   // zone, what, duration, mark, counter: render/bundle/trace.c
void fm_bundle_add_names(struct fm_bundle *b);   // function, file: last, when all numbers are given

// What memory adds to the tree: its sums over the nodes that stay (their number is returned).
size_t fm_bundle_sum_heap(struct fm_bundle *b);
// Memory columns of func_row and line; rows[i] is NULL where there is no memory.
void fm_bundle_add_function_memory(struct fm_bundle *b, const struct fm_heap_function_row *const *rows, size_t n);
void fm_bundle_add_line_memory(struct fm_bundle *b, const struct fm_heap_line_row *const *rows, size_t n);

void fm_bundle_name_sums(struct fm_bundle *b);  // as the next one
void fm_bundle_name_trace(struct fm_bundle *b); // may give names to functions that no sample saw: before anything else
void fm_bundle_add_calls(struct fm_bundle *b, const uint32_t *function_ids, size_t n); // columns of func_row
void fm_bundle_trace_deinit(struct fm_bundle *b);

// what, duration of a comparison: render/bundle/diff_zones.c
struct fm_zone_pairs;
void fm_bundle_add_zone_pairs(struct fm_columns *columns, struct fm_string_table *text, const struct fm_zone_pairs *p);
