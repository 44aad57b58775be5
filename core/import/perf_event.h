// SPDX-License-Identifier: Apache-2.0
// Events of Linux's perf, and what a sample of one stands for. A capture's weights are nanoseconds;
// of perf's events only two clocks are. So who reads a file of perf counts its samples first, and
// weighs them when it reads the file again.
#pragma once

#include <stdint.h>

#include "base/hash.h"
#include "base/mem.h"
#include "import/sink.h"

enum fm_perf_kind {
	FM_PERF_OTHER,
	FM_PERF_TIME,   // its period is nanoseconds
	FM_PERF_CYCLES, // goes as long as a CPU works, but in no unit of time
	FM_PERF_SWITCH, // happens where a thread leaves its CPU
};

struct fm_perf_event {
	enum fm_perf_kind kind;
	struct fm_str name;
	double rate_hz; // that perf was asked for; 0 = not known
	uint64_t n_samples;
	double periods;        // their sum; 0 = they have none
	struct fm_map last_ns; // tid -> time of its last sample
	FM_VEC(uint64_t) gaps; // between samples of a thread

	// What its samples stand for: weight = period * ns_per_period (without periods: 1 for each); 0 =
	// they are passed over.
	double ns_per_period;
};
void fm_perf_event_deinit(struct fm_perf_event *e);

// What it is called tells its kind: "cpu-clock:u", "cpu_core/cycles/", "sched:sched_switch".
enum fm_perf_kind fm_perf_kind_of(struct fm_str name);
// time_ns 0: not known.
void fm_perf_event_count(struct fm_perf_event *e, uint32_t tid, uint64_t time_ns, uint64_t period);
// Chooses the event that goes best with time, weighs its samples, and says what that leaves out.
void fm_perf_events_weigh(struct fm_import *in, struct fm_perf_event *const *events, size_t n);
uint64_t fm_perf_event_weight(const struct fm_perf_event *e, uint64_t period);
