// SPDX-License-Identifier: Apache-2.0
// A trace ring as an agent fills it, and as no agent does: what is written is in proportion to what
// is read.
#include "test.h"

#include <sys/mman.h>

#include "base/clock.h"
#include "collect/ingest/ingest_trace.h"
#include "wire/trace.h"

#define BETWEEN_LOSSES (FM_WIRE_TRACE_EVENTS / 2)

static char path[64];

static void remove_path(void)
{
	unlink(path);
}

static struct rig {
	struct fm_shared shared;
	struct fm_writer *writer;
	struct fm_ingest_trace *take;
	struct fm_wire_trace *ring; // of slot 0
} rig;

static void begin(void)
{
	struct fm_diag diag;
	snprintf(path, sizeof(path), "/tmp/fathom-take-trace-%d.fathom", (int)getpid());
	atexit(remove_path);
	CHECK_EQ(fm_shared_init(&rig.shared, &diag), FM_OK);
	rig.shared.header->trace_clock = FM_WIRE_CLOCK_MONOTONIC;
	CHECK_EQ(fm_writer_open(path, &rig.writer, &diag), FM_OK);
	rig.take = fm_ingest_trace_create(&rig.shared, rig.writer, &(struct fm_trace_limits){ 0 });
	rig.ring = mmap(NULL, FM_WIRE_TRACE_SLOT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, rig.shared.fd,
			FM_WIRE_TRACE_OFFSET);
	CHECK(rig.ring != MAP_FAILED);
	atomic_store(&fm_shared_slot(&rig.shared, 0)->has_trace, 1);
}

static void push(uint32_t kind, uint32_t id, uint64_t stamp)
{
	uint64_t head = atomic_load(&rig.ring->head);
	*fm_wire_trace_event(rig.ring, head) = (struct fm_wire_event){ stamp, id, kind };
	atomic_store(&rig.ring->head, head + 1);
}

static void push_loss(uint32_t n, uint32_t down, uint32_t up)
{
	push(FM_WIRE_LOST, n, fm_now_ns());
	push(FM_WIRE_VALUE, 0, (uint64_t)down << 32 | up);
}

static void read_all(void)
{
	fm_ingest_trace_note(rig.take, 0);
	fm_ingest_trace_read(rig.take, 0, 0, 1, NULL, 0);
	CHECK(fm_ingest_trace_is_read(rig.take, 0));
}

static uint64_t n_written(void)
{
	return fm_ingest_trace_totals(rig.take)->n_events;
}

// So many that a loss can follow.
static void push_marks(void)
{
	for (uint32_t i = 0; i < BETWEEN_LOSSES; i++)
		push(FM_WIRE_MARK, 1, fm_now_ns()); // of no name: nothing is written
	read_all();
}

TEST(after_a_loss_the_stack_is_as_deep_as_it_was_said_to_be)
{
	begin();
	push(FM_WIRE_ENTER, 1, fm_now_ns());
	push(FM_WIRE_ENTER, 2, fm_now_ns());
	push_marks();
	CHECK_EQ(n_written(), 2);
	push_loss(100, 1, 30); // one ends, thirty are open afterwards; and the loss itself
	read_all();
	CHECK_EQ(n_written(), 2 + 1 + 1 + 30);
	push_marks();
	push_loss(7, 0, 8); // seven events cannot have opened eight
	read_all();
	CHECK_EQ(n_written(), 2 + 1 + 1 + 30 + 1 + 7);
	fm_ingest_trace_end_thread(rig.take, 0);
}

TEST(losses_that_cannot_be_write_nothing)
{
	begin();
	push_loss(UINT32_MAX, 0, UINT32_MAX); // before the ring was ever full
	read_all();
	CHECK_EQ(n_written(), 0);
	push_marks();
	while (atomic_load(&rig.ring->head) - atomic_load(&rig.ring->tail) < FM_WIRE_TRACE_EVENTS - 2)
		push_loss(UINT32_MAX, UINT32_MAX, UINT32_MAX);
	read_all();
	// Two of these can be losses, one at each end of half a ring: open, close, open.
	CHECK(n_written() > 0 && n_written() < 4 * FM_WIRE_TRACE_EVENTS);
	fm_ingest_trace_end_thread(rig.take, 0);
}

TEST_MAIN()
