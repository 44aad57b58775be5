// SPDX-License-Identifier: Apache-2.0
// A capture in a process of its own: a capture changes signal handlers and limits for good, and the
// next run has to find them as this one did.
#pragma once

#include <signal.h>

#include "base/err.h"
#include "collect/capture/capture.h"

struct fm_apart {
	const struct fm_capture_options *options;
	// Called in that process before the capture; what it changes (the folder, descriptors) is gone
	// with it. NULL = nothing.
	enum fm_err (*before)(void *arg, struct fm_diag *diag);
	void *arg;
};

// As fm_capture_run; FM_E_REFUSED when that process did not come to its end.
FM_MUST_CHECK enum fm_err fm_apart_run(const struct fm_apart *apart, int *ret_exit_code, struct fm_diag *diag);

// From now on SIGINT, SIGTERM and SIGHUP do not end this process: the first one is noted, and a
// capture that runs is told to end. What Ctrl-C means to the target, the target decides.
void fm_apart_hold_signals(void);
// The one that was noted; 0 = none.
int fm_apart_signal(void);
