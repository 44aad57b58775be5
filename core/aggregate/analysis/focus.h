// SPDX-License-Identifier: Apache-2.0
// One function, or one line, and all that a capture knows of it: what it takes, who calls it, what
// it calls, on which lines, on which threads, and its memory.
//
// Of a stack that it is in several times, its callers are those of the outermost time, and what it
// calls is what the innermost one does. So its callers add up to the whole of it, and what it calls
// together with itself does, too.
#pragma once

#include "aggregate/analysis/analysis.h"

struct fm_focus_place {
	uint32_t function_id;   // FM_NO_ID: a line, or a function that was traced and never sampled
	uint32_t traced;        // the function in the trace; FM_NO_ID = it was not traced
	uint32_t file_id, line; // of a line
};

struct fm_focus_row {
	uint32_t function_id; // FM_NO_ID: no one, a thread begins there
	uint32_t line;        // of a caller: where it calls
	struct fm_weight weight;
};

struct fm_focus_line {
	uint32_t line;
	struct fm_weight weight;       // with what it calls
	const struct fm_line_row *own; // the row of the report: without other functions of the user's. NULL = none
	const struct fm_heap_line_row *memory; // NULL = none
};

struct fm_focus_thread {
	uint32_t thread_id;
	struct fm_weight weight;
};

struct fm_focus {
	struct fm_focus_place place;
	struct fm_weight total, self; // self: it was the innermost frame shown
	struct fm_weight own;         // what its lines are charged: libraries and native code that they call, too
	const struct fm_heap_figures *memory;         // its own; NULL = none
	FM_VEC(struct fm_focus_row) callers, callees; // most first, waiting included
	FM_VEC(struct fm_focus_line) lines;           // most first, waiting included
	FM_VEC(struct fm_focus_thread) threads;       // most first, waiting included
	FM_VEC(const struct fm_heap_leak_row *) leaks;
};

void fm_focus_build(struct fm_focus *f, struct fm_analysis *a, const struct fm_focus_place *place);
void fm_focus_deinit(struct fm_focus *f);

static inline double fm_focus_waiting_s(const struct fm_weight *w)
{
	return fm_seconds(w->ns[FM_CLASS_WAIT] + w->ns[FM_CLASS_GIL_WAIT]);
}

// How many rows of each kind an output shows unless --top says: one screen in all.
enum { FM_FOCUS_CALLS = 6, FM_FOCUS_LINES = 8, FM_FOCUS_THREADS = 3, FM_FOCUS_LEAKS = 3 };
static inline size_t fm_focus_shown(const struct fm_view_options *options, size_t n, size_t usual)
{
	return FM_MIN(n, options->n_top ? options->n_top : usual);
}
// And what the others amount to.
struct fm_focus_rest {
	size_t n_shown, n;
	struct fm_weight weight;
};

// What somebody may have meant by a word: "work", "App.work", "app.work", "ns::work" are functions,
// "app.py:20" is the function that begins there, or else that line.
#define FM_FOCUS_MAX_FOUND 10 // that are kept
struct fm_focus_found {
	bool is_exact; // false: nothing is called that, and these are called nearly so
	size_t n;      // all of them, kept or not; 1 and is_exact: that is it
	struct fm_focus_place places[FM_FOCUS_MAX_FOUND]; // most time first, or the nearest first
};
void fm_focus_find(struct fm_focus_found *ret, struct fm_analysis *a, struct fm_str word);
// A line has no name.
struct fm_str fm_focus_name(const struct fm_analysis *a, const struct fm_focus_place *place);
struct fm_str fm_focus_file(const struct fm_analysis *a, const struct fm_focus_place *place);
uint32_t fm_focus_line(const struct fm_analysis *a, const struct fm_focus_place *place);
