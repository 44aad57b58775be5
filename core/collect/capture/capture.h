// SPDX-License-Identifier: Apache-2.0
// One capture from start to end: launch the target, tick, drain, write, wait, close the file.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "collect/ingest/ingest_trace.h"
#include "wire/wire.h"

struct fm_writer;
struct capture;

struct fm_capture_options {
	char **argv; // NULL-terminated command of the target
	char **env;  // "NAME=value" to add to its environment, NULL-terminated; NULL = nothing
	// A process that runs already and joins by itself (0 = launch argv): on_ready tells it
	// where. The capture ends with the process, or when that says so (is_over). While on_ready or
	// on_poll waits for the process it calls fm_capture_keep_up() a hundred times a second or more.
	uint32_t beside_pid;
	void (*on_ready)(const char *ring_path, struct capture *running, void *arg);
	void *on_ready_arg;
	bool children_join; // so do Pythons that it starts
	const char *output_path;
	const struct fm_redact *redact; // what is masked in command lines and sources; NULL = nothing
	const char *sources_dir; // has the text of sources that are no files by their names, such as cells; NULL = none
	uint32_t rate_hz;
	uint32_t engine; // enum fm_engine; 0 = the ticker: perf, which may not look into the kernel, tells no system
			 // time
	bool native, children;
	bool kernel;        // the kernel's functions inside system calls, where permitted
	uint32_t memory;    // enum fm_wire_memory
	uint64_t log_bytes; // exact mode: every event, too, until the file is so large; 0 = sums only
	uint64_t alloc_mean_bytes;
	int precision;
	double max_overhead; // share, 0 = no limit
	double duration_s;   // 0 = until the target ends
	struct fm_trace_limits trace;
	bool has_calls; // of a launched target: every call is going to be traced, so the rings fill fast
	// Called when the file is there and nothing else has begun: no thread, no target. NULL =
	// nobody waits for it.
	void (*on_open)(const char *path, void *arg);
	void *on_open_arg;
	// Called some hundred times a second while the target runs, with its time so far. True: one
	// that was launched is asked to stop, as at the end of duration_s; the capture of another one
	// ends. NULL = nobody wants it.
	bool (*on_poll)(uint32_t pid, uint64_t elapsed_ns, void *arg);
	void *on_poll_arg;
	// Called when the target has ended, before the file is closed; may add to it. NULL =
	// nothing to add.
	void (*at_end)(struct fm_writer *w, void *arg);
	void *at_end_arg;
};

// Takes over what the target has written. Without it a traced thread that finds its ring full would wait for room, with
// the GIL, and whoever is to answer could not.
void fm_capture_keep_up(struct capture *running);

// FM_OK when the target ran, whatever it returned; a file that could not be written whole, or that
// somebody removed, is said in one line on stderr and does not stop the target. Otherwise diag says
// why nothing ran. *ret_exit_code is set in any case, to what fathom should exit with: the target's
// own, or 128 + signal; 1 where that is 0 and the file is lost.
FM_MUST_CHECK enum fm_err fm_capture_run(const struct fm_capture_options *options, int *ret_exit_code,
					 struct fm_diag *diag);
