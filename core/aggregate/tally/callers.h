// SPDX-License-Identifier: Apache-2.0
// Which Python threads were inside a call of a library, and when.
//
// A sample says where its thread was at one instant. Between two samples the thread is taken to
// have been at the nearer one; what a sample of waiting stands for is known from end to end.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"
#include "read/reader.h"

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
void fm_callers_see(struct fm_callers *c, const struct fm_sample *s, uint32_t python_stack, uint64_t images);
// The call that the thread was in, or NULL.
const struct fm_call *fm_callers_at(const struct fm_callers *c, uint32_t thread_id, uint64_t time_ns);
