// SPDX-License-Identifier: Apache-2.0
// Between `fathom live`, which has the screen, and `fathom top`, which starts a recording to be
// watched there.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct fm_top {
	uint16_t port;     // where the recording lets itself be watched
	pid_t recorder;    // the process that records
	bool is_over;      // it has ended, and was reaped
	char pids[64];     // of the first processes; "" = a program that was started
	bool is_file_kept; // the recording is to stay
	const char *path;  // of it
};

// Until the user has seen enough, or the recording ends. Returns the exit code.
int fm_live_watch(struct fm_top *top);
