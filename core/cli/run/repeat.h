// SPDX-License-Identifier: Apache-2.0
// A capture, or several of the same command one after the other.
#pragma once

#include "collect/capture/capture.h"

// n_runs 1: options->output_path. More: profile_1.fathom, profile_2.fathom, ... in dir. Stops early
// when the target does not end well, since the rest would fail alike, and when the user interrupts.
FM_MUST_CHECK enum fm_err fm_repeat_run(const struct fm_capture_options *options, unsigned n_runs, const char *dir,
					int *ret_exit_code, struct fm_diag *diag);
