// SPDX-License-Identifier: Apache-2.0
// Whether a process has put up a filter of system calls (seccomp) of its own: such a filter may end
// it for a call that it does not list, and the agent makes some. One that we are behind as well, a
// container's, is none of that: it was there before the program, and programs of all kinds run
// behind it.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// By what /proc/PID/status says of them and of us. Where the kernel does not count filters (before
// Linux 5.9) two that have some are taken to have the same.
bool fm_status_is_sandboxed(const char *theirs, const char *ours);
// Any of its threads: a filter is a thread's, and only its maker's wish makes it everybody's.
bool fm_process_is_sandboxed(uint32_t pid);

// Looks again and again, for a small share of the time.
struct fm_sandbox_watch {
	uint64_t next_ns;
	bool is_sandboxed; // for good, as filters are
};
bool fm_sandbox_watch_look(struct fm_sandbox_watch *w, uint32_t pid);
