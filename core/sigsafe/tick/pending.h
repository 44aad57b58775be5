// SPDX-License-Identifier: Apache-2.0
// Signals of the program that came while our handler ran. All are blocked there, so they wait for
// its return.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

#include "sigsafe/base/state.h"

// True when a signal that the program handles waits for our return; ret_flags are those of its
// handler. The kernel takes what was sent to the thread (ours) before what was sent to the process
// (a Ctrl-C): without us it would have met the system call first.
bool fm_sig_is_theirs_pending(const ucontext_t *uc, uint64_t *ret_flags);

// A signal to the whole process wakes one thread, by habit the main one, and is taken by whichever
// comes by first. A thread that only works never comes by, but our return makes it do so: Python's
// main thread would sleep on after a Ctrl-C. So a thread that is not the main one waits a moment
// until the signal has been taken.
void fm_sig_leave_to_main(struct fm_sig_thread *t, const ucontext_t *uc);
