// SPDX-License-Identifier: Apache-2.0
// Between the parts of this room: a capture under way, how its target is started, and what its file
// is told of it as a whole (collect/capture/facts.c).
#pragma once

#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/compiler.h"
#include "base/err.h"
#include "collect/capture/capture.h"
#include "collect/ingest/recorder.h"
#include "collect/observe/ticker.h"
#include "collect/observe/waiting.h"
#include "collect/process/sandbox.h"
#include "collect/shared/shared.h"

// Starts the target with the agent preloaded, otherwise exactly as a shell would.
struct fm_launch {
	pid_t pid;
	char link_dir[64]; // holds a link to the agent when its own path cannot stand in LD_PRELOAD; "" = none
};

// argv is NULL-terminated; argv[0] is searched in PATH. env: "NAME=value" to add to the
// environment, NULL-terminated; or NULL. When the program cannot be started diag says why and
// *ret_exit_code is what a shell would return (126 or 127).
FM_MUST_CHECK enum fm_err fm_launch_start(struct fm_launch *launch, char **argv, char **env, const char *agent_path,
					  const char *ring_path, int *ret_exit_code, struct fm_diag *diag);
void fm_launch_deinit(struct fm_launch *launch);

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
	uint64_t flush_ns;    // when to put on disk next
	uint64_t random;      // when to look next
	struct rusage usage;  // the target's, and its children's that it has waited for
	uint64_t children_ns; // what of it is the children's CPU time, in whole ticks
	int status;
	int target_fd; // of the process that we started; -1: the kernel gives none
	int beside_fd; // of the process that joins by itself
	struct fm_sandbox_watch beside_filter;
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

// Facts about a capture that each of its kinds states in the same way (docs/format.md, "Known meta
// keys").
struct fm_writer;

void fm_meta_uint(struct fm_writer *w, const char *key, uint64_t value);
// When, where and by what it is made.
void fm_meta_origin(struct fm_writer *w);
