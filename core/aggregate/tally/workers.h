// SPDX-License-Identifier: Apache-2.0
// Whose work native threads do.
//
// BLAS, OpenMP, TBB, rayon and thread pools of all kinds work in threads that hold no Python frame.
// Their CPU time is charged to the Python line that waits for them: a thread of the same process
// that is, at that moment, inside a call of a library which is on the worker's stack, too. It may
// be blocked there or busy itself. The worker's stack is then shown below that line, behind a frame
// "[worker threads]"; its time stays the worker's own wherever threads are listed.
//
// The C library and its kin tie nobody: all threads are in them. Of several threads the one is
// taken that shares most libraries with the worker. Where two on different lines share as many, it
// is the one that the worker mostly works for when there is no doubt; if there is none, the time
// stays where it was, at no line.
#pragma once

#include "aggregate/tally/tally.h"

struct fm_workers;

// Ties the workers of a profile that has been read to its end, by a replay of its samples where
// there are any: their cells move to new stacks. *ret is NULL when no work was tied. One line in
// diag on failure.
FM_MUST_CHECK enum fm_err fm_workers_tie(struct fm_reader *reader, struct fm_tally *tally, struct fm_workers **ret,
					 struct fm_diag *diag);
void fm_workers_destroy(struct fm_workers *w); // NULL is fine

// The stack that a sample of the same file counts for: its own, or the one below the line that it
// works for. w may be NULL.
uint32_t fm_workers_stack(const struct fm_workers *w, const struct fm_sample *s);

// ---- which Python threads were inside a call of a library, and when ----
//
// A sample says where its thread was at one instant. Between two samples the thread is taken to
// have been at the nearer one; what a sample of waiting stands for is known from end to end.

struct fm_call {
	uint64_t before_ns, after_ns; // the thread's samples before and after, which were somewhere else
	uint64_t start_ns, end_ns;    // the first and the last one in the call
	uint64_t images;              // a set of bits: the libraries that the call went through
	uint32_t python_stack;        // up to the Python frame that called
};

struct fm_caller {
	FM_VEC(struct fm_call) calls; // in order of time
	uint64_t last_ns;
	bool is_in_call;
};

struct fm_callers {
	FM_VEC(struct fm_caller) threads; // by thread id
	size_t n_calls;
};

void fm_callers_deinit(struct fm_callers *c);
// The next sample of its thread. images 0: it is in no call that matters.
void fm_callers_add(struct fm_callers *c, const struct fm_sample *s, uint32_t python_stack, uint64_t images);
// The call that the thread was in, or NULL.
const struct fm_call *fm_callers_at(const struct fm_callers *c, uint32_t thread_id, uint64_t time_ns);
