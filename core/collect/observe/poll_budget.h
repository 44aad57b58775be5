// SPDX-License-Identifier: Apache-2.0
// What polling threads may cost: a share of one CPU, earned as time passes.
//
// Asking a thread how long it waited takes microseconds, and without it the sums are wrong. Reading a
// stack takes as long as asking thirty threads: it gets a part of the budget of its own, so that
// there is always enough left to list the threads and to ask them.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The share of a CPU, unless another one is asked for.
#define FM_POLL_PERCENT 2u

struct fm_poll_budget {
	int64_t ns;       // left for everything
	int64_t stack_ns; // of it for stacks, where there are many threads
	int64_t hold_ns;  // for which threads that run may be held
	uint64_t earned_at_ns;
	uint64_t used_ns;    // in all
	size_t most_threads; // ever
};

void fm_poll_budget_init(struct fm_poll_budget *b);
void fm_poll_budget_earn(struct fm_poll_budget *b, uint64_t now_ns, uint32_t percent);
// There are so many threads now. Where that is more than ever, there is time for a stack of each of
// the new ones.
void fm_poll_budget_grow(struct fm_poll_budget *b, size_t n_threads);
void fm_poll_budget_pay(struct fm_poll_budget *b, uint64_t ns);
// Whether there is time to read a stack, of a thread that was read before or was not.
bool fm_poll_budget_has_stack(const struct fm_poll_budget *b, bool is_again);
