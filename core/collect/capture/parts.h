// SPDX-License-Identifier: Apache-2.0
// A capture under way, and what its file is told of it as a whole (collect/capture/facts.c). Not
// for other files of the room.
#pragma once

#include <sys/resource.h>

#include "base/compiler.h"
#include "collect/capture/capture.h"
#include "collect/capture/launch.h"
#include "collect/ingest/recorder.h"
#include "collect/shared/shared.h"
#include "collect/observe/ticker.h"
#include "collect/observe/waiting.h"

struct capture {
	const struct fm_capture_options *options;
	struct fm_shared shared;
	struct fm_registry *registry;
	struct fm_writer *writer;
	struct fm_recorder *recorder;
	struct fm_waiting *waiting;
	struct fm_ticker *ticker;
	struct fm_kernel_stacks *kernel;
	struct fm_launch launch;
	uint64_t start_ns, end_ns; // of the target
	uint64_t start_cycles;
	uint64_t random;     // when to look next
	struct rusage usage; // the target's
	int status;
	int target_fd;             // of the process that we started; -1: the kernel gives none
	int beside_fd;             // of the process that joins by itself
	uint64_t beside_rss_bytes; // what it held before
	bool did_say_write_error;
	bool has_given_up; // nothing more can be written
	bool is_left;      // the process beside us wanted no more, and goes on
};

// How it is made. perf_errno: why engine perf is not used although it was asked for, or 0.
void fm_capture_write_opening(const struct capture *c, int perf_errno);
// What it came to, what it cost, and what was not seen.
void fm_capture_write_closing(const struct capture *c, const struct fm_recorder_totals *totals,
			      const struct fm_ticker_stats *ticks);
// One thing that was not seen, and why.
void fm_capture_lacks(const struct capture *c, const char *why, const char *what, ...) FM_PRINTF(3, 4);
