// SPDX-License-Identifier: Apache-2.0
// Observing processes that run already, without an agent in them. Threads that wait are read in
// place; threads that run are held one at a time for the moment in which their registers and stack
// are read, some ten microseconds each.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct fm_writer;

struct fm_attach_options {
	const uint32_t *pids;
	size_t n_pids;
	bool children;      // what they have started and will start, too
	bool skips_refused; // of the named ones, too, those that may not be looked at: an error only when none is left
	const char *output_path;
	const struct fm_redact *redact; // as in fm_capture_options
	uint32_t rate_hz;               // looks per second
	bool native;                    // native frames too
	struct fm_locals *locals;       // for one look: the frames' local variables, too; NULL = no
	bool may_stop;                  // threads that run are sampled, too
	double duration_s;              // 0 = until the processes end, or SIGINT or SIGTERM
	uint32_t cpu_percent; // of one CPU that looking may take, and of the time for which threads may be held
	// When the file has half of that, it becomes older_path (which is replaced) and a new one
	// begins; 0 = it may grow.
	uint64_t max_bytes;
	const char *older_path;
	void (*on_open)(const char *path, void *arg);
	void *on_open_arg; // these four as in fm_capture_options
	void (*at_end)(struct fm_writer *w, void *arg);
	void *at_end_arg;
};

// FM_OK when the processes were there and could be looked at. Otherwise diag says why not, with the
// remedy.
FM_MUST_CHECK enum fm_err fm_attach_run(const struct fm_attach_options *options, struct fm_diag *diag);
// One look: a profile with the present stack of every thread. *ret_n_unread: of threads that could
// not be read, though they did not end; *ret_why then says why if that is known, else it is "".
FM_MUST_CHECK enum fm_err fm_attach_once(const struct fm_attach_options *options, size_t *ret_n_unread,
					 struct fm_diag *ret_why, struct fm_diag *diag);
