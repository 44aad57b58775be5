// SPDX-License-Identifier: Apache-2.0
// The tables people read: functions, lines, threads, processes, totals. Built from a tally and a
// view; no I/O.
#pragma once

#include <stdint.h>

#include "aggregate/tree/view.h"
#include "aggregate/tally/weight.h"

struct fm_function_row {
	uint32_t function_id;
	struct fm_weight self;    // it was the innermost frame shown
	struct fm_weight total;   // it was anywhere in the stack, counted once per stack
	bool is_always_inlined;   // no sample shows it as a call of its own
	struct fm_weight charged; // Python: it was the innermost Python frame, native callees included. Native: as self
	struct fm_weight
		paid; // Python: what its lines are charged, libraries included unless they are shown themselves
};

struct fm_line_row {
	uint32_t function_id; // the function that most of the line's time was in
	uint32_t file_id, line;
	struct fm_weight weight; // native callees are in the native class of the Python line that called them
	uint64_t worker_ns;      // of it, CPU time of threads that work for the line
	uint32_t n_workers;      // these threads
};

struct fm_thread_row {
	uint32_t thread_id;
	struct fm_weight weight;
	uint64_t n; // samples of every class
};

struct fm_process_row {
	uint32_t process_id;
	struct fm_weight weight;
	uint32_t n_threads;
};

struct fm_summary {
	struct fm_weight total;
	FM_VEC(bool) is_users;           // by function id: Python code that is the user's own (fm_summary_is_users)
	double class_sq[FM_N_CLASSES];   // squared weights per class, s^2
	double heavy_sq;                 // of samples for a gap, s^2
	double misplaced_s;              // CPU time whose place is not certain: fm_plus_minus_s()
	uint64_t n_failed_unwinds;       // samples whose stack holds an error frame
	struct fm_weight outside_python; // no Python frame in the stack, and no line that it works for
	struct fm_weight workers;        // native threads that work for a line (aggregate/tally/workers.h)
	struct fm_weight untied; // the same of which nobody knows for which: outside_python of a Python process's
				 // further threads
	FM_VEC(struct fm_function_row) functions; // most total CPU time first
	FM_VEC(struct fm_line_row) lines;         // most CPU time first
	FM_VEC(struct fm_thread_row) threads;     // most CPU time first
	FM_VEC(struct fm_process_row) processes;  // in order of their ids
};

void fm_summary_build(struct fm_summary *t, const struct fm_profile *profile, const struct fm_tally *tally,
		      const struct fm_view *view, const struct fm_symbolizer *symbolizer,
		      const struct fm_view_options *options);
void fm_summary_deinit(struct fm_summary *t);

// True for functions of the user's own code: their file is outside of the standard library and of
// installed packages. Code without a file ("<string>") is the user's when the user's code made it
// run, or when it is where the program begins.
static inline bool fm_summary_is_users(const struct fm_summary *t, uint32_t function_id)
{
	return function_id < t->is_users.n && t->is_users.items[function_id];
}

// Half the 95 % interval of a part's CPU seconds.
double fm_summary_plus_minus_s(const struct fm_summary *t, const struct fm_weight *part);
