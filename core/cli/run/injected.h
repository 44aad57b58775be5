// SPDX-License-Identifier: Apache-2.0
// record --inject: the agent is loaded into a program that runs, by a script that the program's own
// Python runs (collect/remote/exec.h), and gives what a launched program gives. At the end the
// program has its signals and allocators back; the library stays mapped and does nothing.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "cli/run/reach.h"
#include "collect/process/sandbox.h"
#include "collect/remote/exec.h"

struct capture;
struct fm_capture_options;

struct fm_injected {
	struct fm_remote_exec *exec;
	uint32_t pid;
	uint64_t duration_ns; // 0 = until the program ends or Ctrl-C
	uint64_t stopping_ns; // when it was asked to stop; 0 = it was not
	struct fm_reach reach;
	uint32_t n_calls;   // scripts so far
	char answer[32];    // the file in which the last one leaves its answer
	char command[4096]; // the program's, as the kernel has it
	char *argv[64];
	struct fm_diag failure; // why the agent did not get in
	struct fm_sandbox_watch filter;
	struct capture *running; // NULL: it is over
	bool is_traced, has_failed, has_answered;
};

// Makes capture one of this process; is_traced: with every call. FM_E_UNSUPPORTED, FM_E_REFUSED: diag says what stands
// against it, and nothing was changed there.
FM_MUST_CHECK enum fm_err fm_injected_begin(struct fm_injected *in, uint32_t pid, bool is_traced,
					    struct fm_capture_options *capture, struct fm_diag *diag);
// After the capture. Not FM_OK: there is none, and diag says why.
FM_MUST_CHECK enum fm_err fm_injected_end(struct fm_injected *in, struct fm_diag *diag);
