// SPDX-License-Identifier: Apache-2.0
// The agent's fault handlers in a test program: reads that fault go on at their fix-ups.
#pragma once

#include <signal.h>

#include "sigsafe/base/fault.h"
#include "sigsafe/tick/handlers.h"
#include "sigsafe/base/read.h"

static inline void mend_faults(void)
{
	struct sigaction act = { .sa_sigaction = fm_sig_on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER };
	for (unsigned i = 0; i < 2; i++) {
		int sig = i ? SIGBUS : SIGSEGV;
		sigaction(sig, NULL, &fm_sig_held[sig].copies[0]);
		fm_sig_held[sig].is_held = 1;
		sigaction(sig, &act, NULL);
	}
	fm_sig_fault_handler = (uintptr_t)fm_sig_on_fault;
	fm_sig_fault_check(NULL);
}
