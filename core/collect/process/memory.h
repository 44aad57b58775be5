// SPDX-License-Identifier: Apache-2.0
// Looking into a process of ours from outside: its memory, its maps, its threads, and what the kernel
// says of its memory. It runs meanwhile: whatever is read may be torn.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "format/writer.h"
#include "wire/exact.h"

// All of it or nothing. False: not mapped there, gone, or the system refuses (*ret_is_refused, may
// be NULL).
bool fm_process_read(uint32_t pid, uint64_t addr, void *to, size_t len, bool *ret_is_refused);

// The same the other way: memory that the process may write itself.
bool fm_process_write(uint32_t pid, uint64_t addr, const void *from, size_t len);

// Bytes read, which may be fewer than len, the sum of to's; -1 and errno, EPERM when the system
// refuses.
ssize_t fm_process_readv(uint32_t pid, const struct iovec *to, size_t n_to, uint64_t addr, size_t len);

struct fm_process_map {
	uint64_t start, end, off;
	uint32_t dev_major, dev_minor;
	uint64_t inode; // of the file on that device; 0 for anonymous memory
	bool is_executable, is_writable;
	const char *path; // "" for anonymous memory; lives during the call
};
typedef void (*fm_process_map_fn)(void *ctx, const struct fm_process_map *map);
// Calls each() for the process's mappings. False: it is gone.
bool fm_process_maps(uint32_t pid, fm_process_map_fn each, void *ctx);

// Calls each() for the threads in a process's task folder. False: it is gone.
bool fm_process_threads(int task_fd, void (*each)(void *ctx, uint32_t tid), void *ctx);

// What the kernel says of a process's memory while it runs: resident, proportional and swapped
// bytes, and how much of its cgroup's limit is in use. Read from beside it; the process notices
// nothing.

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
