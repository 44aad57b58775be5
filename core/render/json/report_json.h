// SPDX-License-Identifier: Apache-2.0
// The document of `fathom report --json`, for whoever writes it as part of something larger.
#pragma once

#include "aggregate/analysis/analysis.h"
#include "aggregate/tree/libraries.h"
#include "base/json.h"

// The members of the document, inside an object that the caller began. has_rows: with `functions`
// and `lines`, which the viewer gets as columns instead.
void fm_report_json(struct fm_json *j, const struct fm_analysis *a, const struct fm_summary *t,
		    const struct fm_libraries *l, bool has_rows);

// "calls": what a trace says.
void fm_json_calls(struct fm_json *j, const struct fm_trace_stats *s);
// One function of it, with at most so many callers and callees.
void fm_json_call(struct fm_json *j, const char *key, const struct fm_trace_stats *s, uint32_t function, size_t n_most);

// Seconds by class: "python_s", "native_s", ...
void fm_json_classes(struct fm_json *j, const struct fm_weight *w);

// The document of `fathom report --focus --json`, schema fathom.focus/1.
struct fm_focus;
void fm_focus_json(FILE *out, struct fm_analysis *a, const struct fm_focus *f);

// "memory" and "leaks".
void fm_json_memory(struct fm_json *j, const struct fm_analysis *a);
void fm_json_leaks(struct fm_json *j, const struct fm_analysis *a);

// The highest resident memory of a process that was seen.
uint64_t fm_json_max_rss(const struct fm_profile *p, uint32_t process_id);

// Fields of one line or function; NULL writes zeroes.
void fm_json_line_memory(struct fm_json *j, const struct fm_heap_line_row *row);
void fm_json_function_memory(struct fm_json *j, const struct fm_heap_function_row *row);

// Rows of the heap's tables by what they are of, and which of them were asked for.
struct fm_json_heap_index {
	const struct fm_heap *heap;
	struct fm_map lines; // file_id << 32 | line -> row
	uint32_t *functions; // function id -> row + 1
	uint32_t n_functions;
	bool *line_is_done, *function_is_done;
};
void fm_json_heap_index_init(struct fm_json_heap_index *x, const struct fm_analysis *a);
void fm_json_heap_index_deinit(struct fm_json_heap_index *x);
// NULL when there is none; marks it as done.
const struct fm_heap_line_row *fm_json_heap_line(struct fm_json_heap_index *x, uint32_t file_id, uint32_t line);
const struct fm_heap_function_row *fm_json_heap_function(struct fm_json_heap_index *x, uint32_t function_id);
