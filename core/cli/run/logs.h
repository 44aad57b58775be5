// SPDX-License-Identifier: Apache-2.0
// logs.log in the results folder: written by the target's Pythons (python/fathom/_startup), counted
// here.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct fm_writer;

enum fm_log_level { FM_LOG_DEBUG, FM_LOG_INFO, FM_LOG_WARNING, FM_LOG_ERROR, FM_LOG_CRITICAL, FM_N_LOG_LEVELS };

struct fm_log_counts {
	uint64_t n[FM_N_LOG_LEVELS];
};

// A record begins with its time and level; further lines of it are indented. False when there is no
// such file.
bool fm_logs_count(const char *path, struct fm_log_counts *ret);

// Puts path and counts into the profile: meta logs_path, logs_count_debug, ..._info, ..._warning,
// ..._error, ..._critical. Without a file says in the coverage that nothing was watched, and why.
void fm_logs_tell(struct fm_writer *w, const char *results_dir, const char *why_not);
