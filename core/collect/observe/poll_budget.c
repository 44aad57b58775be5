// SPDX-License-Identifier: Apache-2.0
#include "collect/observe/waiting_parts.h"

#include "base/compiler.h"

// What may be saved up for a burst, and what there is for the beginning.
#define MOST_NS 10000000
#define START_NS 30000000
// Of many threads that sleep often not every sleep can be read. Threads of which none was seen yet
// come first, and what a thread waits unseen is charged to the next sleep of its that is seen.
#define STACK_PERCENT 40
#define STACKS_AGAIN_NS 2000000
#define FIRST_STACK_NS 100000

void fm_poll_budget_init(struct fm_poll_budget *b)
{
	*b = (struct fm_poll_budget){ .ns = START_NS, .stack_ns = START_NS / 100 * STACK_PERCENT };
}

void fm_poll_budget_earn(struct fm_poll_budget *b, uint64_t now_ns, uint32_t percent)
{
	if (b->earned_at_ns) {
		int64_t earned_ns = (int64_t)((now_ns - b->earned_at_ns) * percent / 100);
		b->ns = FM_MIN(b->ns + earned_ns, FM_MAX((int64_t)MOST_NS, b->ns));
		b->hold_ns = FM_MIN(b->hold_ns + earned_ns, (int64_t)MOST_NS);
		b->stack_ns =
			FM_MIN(b->stack_ns + earned_ns * STACK_PERCENT / 100, FM_MAX((int64_t)MOST_NS, b->stack_ns));
	}
	b->earned_at_ns = now_ns;
}

void fm_poll_budget_grow(struct fm_poll_budget *b, size_t n_threads)
{
	if (n_threads <= b->most_threads)
		return;
	int64_t extra_ns = (int64_t)(n_threads - b->most_threads) * FIRST_STACK_NS;
	b->ns += extra_ns;
	b->stack_ns += extra_ns;
	b->most_threads = n_threads;
}

void fm_poll_budget_pay(struct fm_poll_budget *b, uint64_t ns)
{
	b->ns -= (int64_t)ns;
	b->used_ns += ns;
}

bool fm_poll_budget_has_stack(const struct fm_poll_budget *b, bool is_again)
{
	return b->ns > MOST_NS / 2 || // which is surely left over
	       b->stack_ns > (is_again ? STACKS_AGAIN_NS : 0);
}
