// SPDX-License-Identifier: Apache-2.0
// One row per command; help and dispatch come from the table in main.c. A command gets its own name
// as argv[0].
#pragma once

struct fm_command {
	const char *name;
	int (*run)(int argc, char **argv); // returns the exit code
	const char *summary;
};

// Exit codes of the contract: 0 fine, 1 the job failed (one line says why), 2 wrong usage.
enum { FM_EXIT_OK = 0, FM_EXIT_FAILED = 1, FM_EXIT_USAGE = 2 };
