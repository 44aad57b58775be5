// SPDX-License-Identifier: Apache-2.0
// The state of the allocator hooks that the rest of the signal-time code has to know: who claims a
// slot resets it, who goes quiet switches it off.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "sigsafe/base/sampler.h"
#include "wire/exact.h"

struct fm_sig_frame_cache;

struct fm_sig_alloc_thread {
	struct fm_sig_sampler allocs, copies;
	uint64_t log_id; // the number in the log of the block that was last counted or taken out here; 0 = it has none
	struct fm_sig_frame_cache *frame_cache; // exact mode: its own, when it may be used by exact_quick.h; else NULL
	union {
		struct {
			uint32_t depth; // inside an allocator of Python's: what it asks of malloc is a part of what was
					// asked of it
			uint32_t has_lock; // exact mode: this thread has the lock, or its stack is being looked at
		};
		uint64_t is_inside; // both at one look
	};
};

// initial-exec: reading it never allocates, and it is there until the thread's very end.
extern __thread struct fm_sig_alloc_thread fm_sig_alloc __attribute__((tls_model("initial-exec")));

// The hooks may sample: this process is in the table, and its memory is watched. Off, they look
// again every MiB.
extern _Atomic bool fm_sig_alloc_is_on;

// This process's place in shared memory; NULL when all are taken.
extern FM_HIDDEN struct fm_wire_exact *fm_sig_exact_sums;

// exact_python.c may be used: the capture began with the program, is exact, has a place for sums
// and no log. Not while nothing is counted: in a child that is not followed, at the interpreter's
// end.
extern FM_HIDDEN _Atomic bool fm_sig_exact_is_quick;
