// SPDX-License-Identifier: Apache-2.0
// A thread's ring, written as the hooks do and read as the collector does. Behind it lies a page
// that nobody may touch.
#include "agent/trace.h"

#include <sys/mman.h>

#include "agent/agent.h"
#include "sigsafe/base/quiet.h"
#include "test.h"

static struct fm_trace_thread *t;
static struct fm_wire_header header;
static struct fm_wire_counts counts;
static uint64_t n_read;

// What trace.c wants of the rest of the agent.
void *fm_agent_map_private(size_t size)
{
	return calloc(1, size);
}

// A ring that has been written up to this event and read as far.
static void begin(uint64_t head)
{
	uint8_t *p =
		mmap(NULL, FM_WIRE_TRACE_SLOT_BYTES + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(p != MAP_FAILED);
	CHECK_EQ(mprotect(p + FM_WIRE_TRACE_SLOT_BYTES, 4096, PROT_NONE), 0);
	t = calloc(1, sizeof(*t));
	t->control = (struct fm_wire_trace *)p;
	atomic_store(&t->control->head, head);
	atomic_store(&t->control->tail, head);
	n_read = head;
	fm_sig.header = &header;
	fm_sig.counts = &counts;
	fm_sig_quiet.state = FM_SIG_QUIET; // a full ring is not waited for
	fm_sig_quiet.since_ns = fm_now_ns();
}

static void push(uint32_t id)
{
	fm_trace_push(t, id, FM_WIRE_MARK, id);
}

static struct fm_wire_event next_event(void)
{
	CHECK(n_read < atomic_load(&t->control->head));
	struct fm_wire_event e = *fm_wire_trace_event(t->control, n_read++);
	atomic_store(&t->control->tail, n_read);
	return e;
}

static void expect(uint32_t kind, uint32_t id)
{
	struct fm_wire_event e = next_event();
	CHECK_EQ(e.kind, kind);
	CHECK_EQ(e.id, id);
}

TEST(events_come_out_as_they_went_in_lap_after_lap)
{
	uint32_t written = 0, read = 0, random = 1;
	begin(0);
	while (read < 5 * FM_WIRE_TRACE_EVENTS) {
		random = random * 1664525u + 1013904223u;
		uint32_t room = FM_WIRE_TRACE_EVENTS - (written - read);
		for (uint32_t n = FM_MIN(room, random >> 14); n; n--)
			push(written++);
		random = random * 1664525u + 1013904223u;
		for (uint32_t n = FM_MIN(written - read, random >> 14); n; n--) {
			struct fm_wire_event e = next_event();
			CHECK(e.kind == FM_WIRE_MARK && e.id == read && e.stamp == read);
			read++;
		}
	}
	CHECK_EQ(atomic_load(&t->control->n_lost), 0);
}

TEST(a_slot_is_taken_over_in_the_middle_of_a_lap)
{
	begin(7 * (uint64_t)FM_WIRE_TRACE_EVENTS + 1234);
	push(1);
	push(2);
	expect(FM_WIRE_MARK, 1);
	expect(FM_WIRE_MARK, 2);
}

TEST(a_loss_is_told_wherever_the_lap_ends)
{
	for (uint32_t left_in_lap = 1; left_in_lap <= 4; left_in_lap++) {
		begin(3 * (uint64_t)FM_WIRE_TRACE_EVENTS - left_in_lap);
		for (uint32_t i = 0; i < FM_WIRE_TRACE_EVENTS; i++)
			push(i);
		push(1000001); // two that do not fit
		push(1000002);
		CHECK_EQ(atomic_load(&t->control->n_lost), 2);
		for (uint32_t i = 0; i < FM_WIRE_TRACE_EVENTS; i++)
			expect(FM_WIRE_MARK, i);
		push(77);
		expect(FM_WIRE_LOST, 2);
		expect(FM_WIRE_VALUE, 0);
		expect(FM_WIRE_MARK, 77);
		CHECK_EQ(n_read, atomic_load(&t->control->head));
	}
}

TEST(nothing_is_recorded_when_nobody_reads)
{
	begin(0);
	atomic_store(&fm_trace.is_recording, 1);
	fm_trace_renew(true);
	push(1);
	t->limit = 1; // time to look
	push(2);
	CHECK_EQ(atomic_load(&t->control->head), 2);
	fm_sig_quiet.state = FM_SIG_GONE;
	t->limit = 2;
	push(3);
	CHECK_EQ(atomic_load(&t->control->head), 2);
	CHECK(!atomic_load(&fm_trace.is_recording) && !atomic_load(&fm_trace.is_on));
	CHECK_EQ(atomic_load(&counts.n_traces_ended), 1);
}

TEST(nothing_is_written_where_there_is_no_ring)
{
	begin(0);
	t->control = NULL; // as in a child that was forked past the C library
	push(1);
	struct fm_trace_code entry = { .id = 5 };
	fm_trace_meet_code(t, &entry, (uintptr_t)&entry);
	CHECK_EQ(entry.id, 0);
}

TEST_MAIN()
