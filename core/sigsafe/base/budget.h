// SPDX-License-Identifier: Apache-2.0
// How long a sample may take, and all samples together. Both by time that was spent, from the first
// sample on: a stack may be as deep as memory, and a program that does nothing but answer our
// signals makes no progress.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "sigsafe/base/state.h"

// One sample: some 4,000 frames. What is further out is left out, and a frame in its place says so
// (FM_STACK_CUT).
#define FM_SIG_SAMPLE_NS 200000u
// The same where the user wants no limit (--max-overhead 0). Of either the Python frames may take
// half, so that native ones get their share.
#define FM_SIG_UNLIMITED_SAMPLE_NS 20000000u
// Loops look at the clock once in so many steps: it costs 20 cycles, a step about 100.
#define FM_SIG_STEPS_PER_LOOK 32u
// What a thread may have saved up of its share: so much can be spent at once. Its first samples are
// dear, because memory is mapped and every function is new.
#define FM_SIG_SAVED_NS 5000000

// What allocations have spent beyond their share halves them once for each of these.
#define FM_SIG_DEBT_NS 1000000
// Allocations are halved so often at the most: 1,024 times rarer.
#define FM_SIG_MAX_PRESSURE 10u

// Begins a sample, or a hook's look at the stack. From now on deadlines count.
static inline void fm_sig_budget_begin(struct fm_sig_thread *t, uint64_t start_cycles)
{
	t->start_cycles = start_cycles;
	t->start_cpu_ns = 0;
	t->may_take_ns = fm_sig.sample_ns / 2;
	t->deadline = start_cycles + fm_sig.sample_cycles / 2;
}

// The Python frames are done: the rest of the time is for native ones.
static inline void fm_sig_budget_go_on(struct fm_sig_thread *t)
{
	t->may_take_ns = fm_sig.sample_ns;
	t->deadline = t->start_cycles + fm_sig.sample_cycles;
}

// The cycle counter says that the time is up; it runs on while others have the CPU. True when the
// thread's own clock says so, too.
bool fm_sig_is_time_up(struct fm_sig_thread *t);

static FM_ALWAYS_INLINE bool fm_sig_is_late(struct fm_sig_thread *t)
{
	return FM_UNLIKELY(fm_cycles() > t->deadline) && fm_sig_is_time_up(t);
}

// For loops: true when the time is up. step: how often it went round.
static FM_ALWAYS_INLINE bool fm_sig_is_out_of_time(struct fm_sig_thread *t, uint32_t step)
{
	return FM_UNLIKELY(step % FM_SIG_STEPS_PER_LOOK == FM_SIG_STEPS_PER_LOOK - 1) && fm_sig_is_late(t);
}

// True when the thread may spend time on a sample now. cpu_ns: its CPU time.
bool fm_sig_budget_allows(struct fm_sig_thread *t, uint64_t cpu_ns);
// What was spent since the beginning: on a sample of time; on one of an allocation or a copy, which
// get rarer when too much is.
void fm_sig_budget_end(struct fm_sig_thread *t);
void fm_sig_budget_end_alloc(struct fm_sig_thread *t);
// The CPU's cycles in so many nanoseconds.
uint64_t fm_sig_cycles_in(uint64_t ns);
// A capture begins: sets fm_sig.sample_ns and its cycles.
void fm_sig_budget_start(void);
