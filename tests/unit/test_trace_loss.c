// SPDX-License-Identifier: Apache-2.0
// What a full ring loses of a trace is told: how many events, and what they did to the stack of
// open calls.
#include "agent/trace.h"

#include <sys/mman.h>

#include "agent/agent.h"
#include "sigsafe/base/quiet.h"
#include "test.h"

// What trace.c wants of the rest of the agent.
void *fm_agent_map_private(size_t size)
{
	return calloc(1, size);
}

TEST(the_stack_goes_down_and_up_by_what_was_lost)
{
	static struct fm_wire_header header;
	static struct fm_wire_counts counts;
	fm_sig.header = &header;
	fm_sig.counts = &counts;
	fm_sig_quiet.state = FM_SIG_QUIET; // a full ring is not waited for
	fm_sig_quiet.since_ns = fm_now_ns();
	struct fm_trace_thread *t = calloc(1, sizeof(*t));
	t->control = mmap(NULL, FM_WIRE_TRACE_SLOT_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK((void *)t->control != MAP_FAILED);
	for (uint32_t i = 0; i < FM_WIRE_TRACE_EVENTS; i++)
		fm_trace_push(t, i, FM_WIRE_MARK, i);
	static const uint32_t lost[] = { FM_WIRE_LEAVE, FM_WIRE_LEAVE, FM_WIRE_ENTER, FM_WIRE_LEAVE,
					 FM_WIRE_END,   FM_WIRE_BEGIN, FM_WIRE_ENTER, FM_WIRE_MARK };
	for (uint32_t i = 0; i < FM_ARRAY_LEN(lost); i++)
		fm_trace_push(t, 0, lost[i], 1);
	CHECK_EQ(atomic_load(&t->control->n_lost), FM_ARRAY_LEN(lost));
	uint64_t n = atomic_load(&t->control->head);
	atomic_store(&t->control->tail, n); // the collector has read all
	fm_trace_push(t, 0, FM_WIRE_MARK, 77);
	const struct fm_wire_event *told = fm_wire_trace_event(t->control, n);
	CHECK(told->kind == FM_WIRE_LOST && told->id == FM_ARRAY_LEN(lost));
	told = fm_wire_trace_event(t->control, n + 1);
	CHECK_EQ(told->kind, FM_WIRE_VALUE);
	CHECK_EQ(told->stamp >> 32, 3);     // down by three,
	CHECK_EQ((uint32_t)told->stamp, 2); // and up by two
	told = fm_wire_trace_event(t->control, n + 2);
	CHECK(told->kind == FM_WIRE_MARK && told->id == 77);
}

TEST_MAIN()
