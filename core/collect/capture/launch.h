// SPDX-License-Identifier: Apache-2.0
// Starts the target with the agent preloaded, otherwise exactly as a shell would.
#pragma once

#include <sys/types.h>

#include "base/err.h"

struct fm_launch {
	pid_t pid;
	char link_dir[64]; // holds a link to the agent when its own path cannot stand in LD_PRELOAD; "" = none
};

// argv is NULL-terminated; argv[0] is searched in PATH. env: "NAME=value" to add to the
// environment, NULL-terminated; or NULL. When the program cannot be started diag says why and
// *ret_exit_code is what a shell would return (126 or 127).
FM_MUST_CHECK enum fm_err fm_launch_start(struct fm_launch *launch, char **argv, char **env, const char *agent_path,
					  const char *ring_path, int *ret_exit_code, struct fm_diag *diag);
void fm_launch_deinit(struct fm_launch *launch);
