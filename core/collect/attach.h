// Observing a process that runs already, without an agent in it. Threads that wait are read as they lie; threads that run are held one at
// a time for the moment in which their registers and stack are read, some ten microseconds each.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct fm_writer;

struct fm_attach_options {
	uint32_t pid;
	const char *output_path;
	const struct fm_redact *redact; // as in fm_capture_options
	uint32_t rate_hz;               // looks per second
	bool native;                    // native frames too
	bool may_stop;                  // threads that run are sampled, too
	double duration_s;              // 0 = until the process ends, or SIGINT or SIGTERM
	uint32_t cpu_percent; // of one CPU that looking may take, and of the time for which threads may be held
	void (*on_open)(const char *path, void *arg);
	void *on_open_arg; // these four as in fm_capture_options
	void (*at_end)(struct fm_writer *w, void *arg);
	void *at_end_arg;
};

// FM_OK when the process was there and could be looked at. Otherwise diag says why not, with the remedy.
FM_MUST_CHECK enum fm_err fm_attach_run(const struct fm_attach_options *options, struct fm_diag *diag);
// One look: a profile with the present stack of every thread.
FM_MUST_CHECK enum fm_err fm_attach_once(const struct fm_attach_options *options, struct fm_diag *diag);
