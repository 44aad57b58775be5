// SPDX-License-Identifier: Apache-2.0
// What the kernel says of a process's memory while it runs: resident, proportional and swapped
// bytes, and how much of its cgroup's limit is in use. Read from beside it; the process notices
// nothing.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "format/writer.h"
#include "wire/exact.h"

// Levels are read this often, less often when there are many processes.
#define FM_LEVELS_PERIOD_NS 100000000u

enum fm_cgroup_version { FM_CGROUP_NONE, FM_CGROUP_V1, FM_CGROUP_V2 };
// Which group limits a process's memory, by the text of its /proc/PID/cgroup, which is taken apart.
// *ret_folder is the group's name as written there: its path below the hierarchy's root.
enum fm_cgroup_version fm_cgroup_of(char *text, const char **ret_folder);

struct fm_levels;
struct fm_levels *fm_levels_create(uint32_t pid, uint32_t process_id, struct fm_writer *writer);
// The same with /proc and /sys below another folder, for machines that are not at hand.
struct fm_levels *fm_levels_create_below(const char *root, uint32_t pid, uint32_t process_id, struct fm_writer *writer);
// Reads and writes a level when it is time. n_processes is how many are looked at in turn. exact:
// the process's own sums, or NULL.
void fm_levels_poll(struct fm_levels *l, uint64_t now_ns, uint32_t n_processes, struct fm_wire_exact *exact);
// Writes what was held back, and says in the profile when the kernel killed the process for want of
// memory. Frees; NULL is fine.
void fm_levels_end(struct fm_levels *l, int exit_signal);
// Frees, and writes nothing.
void fm_levels_destroy(struct fm_levels *l);
