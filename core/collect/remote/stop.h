// SPDX-License-Identifier: Apache-2.0
// A thread that runs, held for the moment in which its stack is read. Not for threads that wait:
// they are read as they are.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "collect/remote/remote.h"

// Whether this process may use ptrace at all; filters of containers forbid it.
bool fm_remote_may_stop(void);

// Stops the thread and gives its registers and the system call it is in. False: it is gone, or the
// system refuses (*ret_is_refused); then it is not held.
bool fm_remote_stop(uint32_t tid, struct fm_remote_regs *ret_regs, struct fm_remote_call *ret_call,
		    bool *ret_is_refused);
// Lets it go on.
void fm_remote_go(uint32_t tid);
