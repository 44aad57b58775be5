// Turns what agents put into the rings into a profile: drains slots, resolves definitions, hands everything to the writer.
// One thread. Knows processes and threads only by what the shared memory and /proc say.
#pragma once

#include <stdint.h>

#include "collect/cost.h"
#include "collect/shared.h"
#include "collect/take_trace.h"
#include "format/writer.h"

struct fm_recorder;

struct fm_recorder_totals {
	uint64_t n_samples, n_dropped, n_failed, n_restarted, n_bad_records;
	struct fm_cost cost;
	struct fm_take_trace_totals trace;
	uint32_t n_processes, n_unknown_python;
	uint32_t n_processes_alive; // not ended yet
};

struct fm_recorder *fm_recorder_create(struct fm_shared *shared, struct fm_writer *writer,
				       const struct fm_trace_limits *limits);
void fm_recorder_destroy(struct fm_recorder *r);

// Takes everything that is in the rings now. Also notices processes that came and went and frees slots of ended threads.
void fm_recorder_drain(struct fm_recorder *r);
// How many processes have joined and not ended.
uint32_t fm_recorder_n_alive(const struct fm_recorder *r);
// The status of a process that the caller has reaped.
void fm_recorder_set_exit(struct fm_recorder *r, uint32_t pid, int exit_code, int exit_signal);
// Last drain: ends what is still open, and adds to the coverage what could not be seen.
void fm_recorder_finish(struct fm_recorder *r, struct fm_recorder_totals *ret);
