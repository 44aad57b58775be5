// SPDX-License-Identifier: Apache-2.0
// How many instructions a program and its children run in user space, as the CPU counts them: a
// figure that other load on the machine hardly changes.
#pragma once

#include <stdint.h>

#include "base/err.h"

// What is counted, as perf_event_open wants it.
struct fm_counted {
	uint32_t type;
	uint64_t config;
};
extern const struct fm_counted fm_counted_instructions;

// A counter that starts with the next exec of a process that this one starts from now on, and of all
// that come of it. What this process itself runs is not counted. One counter counts one such process:
// where parent and child change places on a CPU before the exec, the kernel changes their counters,
// too, and a second child would find this one used up. *ret_fd is the caller's to close;
// FM_E_UNSUPPORTED says in diag why this machine has none.
FM_MUST_CHECK enum fm_err fm_instructions_open(const struct fm_counted *what, int *ret_fd, struct fm_diag *diag);
// So far, of the processes that have ended. 0 when it cannot be read.
uint64_t fm_instructions_read(int fd);
