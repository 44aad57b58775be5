// SPDX-License-Identifier: Apache-2.0
// The trace of one thread in one chunk: a batch of events (docs/format.md, "Traces").
//
// An event is a varint of its distance in time and its kind, then what the kind needs: two bytes
// for the end of a call that took less than 2 us, three or four for a beginning. A batch starts
// from its own base time and lists what is open at its start, so it can be read whatever happened
// to the chunks before it.
#pragma once

#include <stdint.h>

#include "base/cursor.h"
#include "base/mem.h"
#include "base/str.h"
#include "format/model.h"

struct fm_zone_event {
	uint32_t thread_id;
	uint8_t op;   // enum fm_zone_op
	uint32_t ref; // what it is of, by op
	uint64_t time_ns;
	double value;
};

// What is open: a code or a trace name. 0 is a code that is not known.
typedef uint64_t fm_zone_ref;
static inline fm_zone_ref fm_zone_ref_of(uint8_t op, uint32_t ref)
{
	return op == FM_ZONE_BEGIN ? (uint64_t)ref << 1 | 1 : ref == FM_NO_ID ? 0 : ((uint64_t)ref + 1) << 1;
}
static inline bool fm_zone_ref_is_name(fm_zone_ref r)
{
	return r & 1;
}
// The code id, FM_NO_ID = not known; or the name's.
static inline uint32_t fm_zone_ref_id(fm_zone_ref r)
{
	return r & 1 ? (uint32_t)(r >> 1) : (uint32_t)(r >> 1) - 1;
}

// ---- writing: one encoder per thread ----

// Where an open one began, so that it can be taken back.
struct fm_zone_start {
	uint32_t batch;
	size_t before, after; // its event in the batch
	uint64_t previous_ns; // the time of the event before
	uint64_t begin_ns;
};

struct fm_zone_encoder {
	// What begins and ends within less, with nothing longer inside, is left out: its time is
	// then its caller's. 0 = keep all.
	uint64_t min_ns;
	uint64_t n_left_out;
	FM_VEC(struct fm_zone_start) starts; // of what is open; kept only with min_ns
	uint32_t n_batches;
	FM_VEC(fm_zone_ref) open; // outermost first
	struct fm_buf events;     // of the batch so far
	struct fm_buf head;       // of the batch, made at its first event
	uint32_t n;
	uint64_t time_ns; // of the last event, over all batches
};
void fm_zone_encoder_deinit(struct fm_zone_encoder *e);
// Times that go backwards are taken for the last one. LEAVE with nothing open is left out.
void fm_zone_encode(struct fm_zone_encoder *e, uint8_t op, uint32_t ref, uint64_t time_ns, double value);
// Appends the batch as a record's body and begins the next one. False when there is nothing in it.
bool fm_zone_encoder_take(struct fm_zone_encoder *e, uint32_t thread_id, struct fm_buf *out);

// ---- reading ----

struct fm_zone_batch {
	uint32_t thread_id;
	uint32_t n, pos; // events in all, and decoded
	uint64_t time_ns;
	uint64_t depth;          // open at its start
	uint32_t n_listed;       // of these, the innermost ones
	struct fm_cursor listed; // as varints, outermost first
	struct fm_cursor events;
};
// The batch borrows the bytes under body.
FM_MUST_CHECK enum fm_err fm_zones_get(struct fm_cursor *body, struct fm_zone_batch *ret);
// FM_E_END after the last one. References are not checked: they need the tables.
FM_MUST_CHECK enum fm_err fm_zone_batch_next(struct fm_zone_batch *batch, struct fm_zone_event *ret);
