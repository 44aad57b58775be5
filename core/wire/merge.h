// SPDX-License-Identifier: Apache-2.0
// One stack out of two: each run of Python frames goes to the C frame of the evaluator call that
// ran it. Pure; the agent merges its own thread's stack at signal time, the collector those that it
// reads from beside.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct fm_native_frame {
	uint64_t pc;
	uint64_t cfa; // end of the frame on the stack: it owns [previous cfa, cfa); UINT64_MAX = the rest
};

struct fm_python_run {
	uint64_t marker; // an address inside the evaluator's C frame; 0 = not known (3.8, 3.9)
	uint32_t end;    // index after the run's last Python frame
};

// The evaluator's code: _PyEval_EvalFrameDefault and its .cold part, where symbols tell. Empty =
// not known.
struct fm_evaluator {
	struct {
		uint64_t start, end;
	} part[2];
};

static inline bool fm_evaluator_has(const struct fm_evaluator *e, uint64_t pc)
{
	return (pc >= e->part[0].start && pc < e->part[0].end) || (pc >= e->part[1].start && pc < e->part[1].end);
}

struct fm_merge {
	// Both stacks, innermost first.
	const struct fm_native_frame *native;
	struct fm_python_run *runs; // those without a marker get one
	const uint64_t *python;
	uint32_t n_native, n_runs, n_python;
	uint32_t native_error, python_error; // enum fm_stack_error or 0
	uint64_t native_sp;                  // where the innermost native frame begins
	uint32_t precise_native;  // index of a frame below a signal frame, whose pc is exact; UINT32_MAX = none
	bool is_leaf_called;      // the innermost frame shown was calling: its pc is a return address
	bool pairs_by_evaluators; // evaluator frames and Python frames pair one to one: no run has a marker
	const struct fm_evaluator *evaluator;
	int32_t syscall_nr; // in which the thread is, shown as its innermost frame; -1 = none

	// One stack, innermost first, as rings have it. Nothing is ever left out: where one side is
	// incomplete, an error frame stands in the gap. What does not fit goes at the outer end,
	// and the last frame says so.
	uint64_t *out;
	uint32_t max_out, n_out;
	uint32_t leaf_idx,
		precise_idx; // where native[0] and native[precise_native] went; UINT32_MAX = nowhere, or not exact
};

void fm_merge(struct fm_merge *m);

// True for the i-th native frame when it is a call of Python's evaluator.
static inline bool fm_merge_is_evaluator(const struct fm_native_frame *native, uint32_t i, bool is_leaf_called,
					 const struct fm_evaluator *e)
{
	return fm_evaluator_has(e, native[i].pc - (i == 0 && !is_leaf_called ? 0 : 1));
}
