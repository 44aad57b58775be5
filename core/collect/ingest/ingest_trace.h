// SPDX-License-Identifier: Apache-2.0
// The collector's side of the trace rings: reads events, turns stamps into time and wire ids into
// ids of the profile, keeps what is open on each thread, and hands batches to the writer. Memory
// grows with the depth of stacks, not with events.
#pragma once

#include <stdint.h>

#include "collect/shared/shared.h"
#include "format/writer.h"

struct fm_ingest_trace;
struct fm_wire_record;

struct fm_ingest_trace_totals {
	uint64_t n_events; // all that were written, calls or not
	uint64_t n_lost;   // that did not fit their ring
	uint64_t n_short;  // calls that were left out for their shortness
	uint64_t n_unseen; // times a thread ran out of C stack and went on without the hook
};

struct fm_trace_limits {
	uint64_t last_ns; // only what happened so long before the end is kept, in memory until then; 0 = everything
	uint64_t min_ns;  // calls that took less, and called nothing that took longer, are left out; 0 = none
};

struct fm_ingest_trace *fm_ingest_trace_create(struct fm_shared *shared, struct fm_writer *writer,
					       const struct fm_trace_limits *limits);
void fm_ingest_trace_destroy(struct fm_ingest_trace *t);

// Three steps, in the order of the recorder's own: how far each ring is; then (definitions are read
// in between) what to read them by; then the events up to there.
void fm_ingest_trace_note(struct fm_ingest_trace *t, uint32_t slot_idx);
void fm_ingest_trace_calibrate(struct fm_ingest_trace *t);
// code_ids: by wire id, ids of the profile + 1.
void fm_ingest_trace_read(struct fm_ingest_trace *t, uint32_t slot_idx, uint32_t process_idx, uint32_t thread_id,
			  const uint32_t *code_ids, size_t n_codes);
// Ends regions on all threads of processes in which tracing ended, and gives the writer what has
// waited long enough.
void fm_ingest_trace_settle(struct fm_ingest_trace *t);

// A definition: FM_WIRE_TRACE_NAME. False when it cannot be one.
bool fm_ingest_trace_name(struct fm_ingest_trace *t, uint32_t process_idx, const struct fm_wire_record *rec);
// True when the ring has been read to its end.
bool fm_ingest_trace_is_read(const struct fm_ingest_trace *t, uint32_t slot_idx);
void fm_ingest_trace_end_thread(struct fm_ingest_trace *t, uint32_t slot_idx);
void fm_ingest_trace_end_process(struct fm_ingest_trace *t, uint32_t process_idx);
// Writes what was kept back; after the last thread has ended.
void fm_ingest_trace_finish(struct fm_ingest_trace *t);
const struct fm_ingest_trace_totals *fm_ingest_trace_totals(const struct fm_ingest_trace *t);
