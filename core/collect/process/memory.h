// SPDX-License-Identifier: Apache-2.0
// Looking into a process of ours from outside: its memory, its maps, its threads. It runs
// meanwhile: whatever is read may be torn.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

// All of it or nothing. False: not mapped there, gone, or the system refuses (*ret_is_refused, may
// be NULL).
bool fm_process_read(uint32_t pid, uint64_t addr, void *to, size_t len, bool *ret_is_refused);

// Bytes read, which may be fewer than len, the sum of to's; -1 and errno, EPERM when the system
// refuses.
ssize_t fm_process_readv(uint32_t pid, const struct iovec *to, size_t n_to, uint64_t addr, size_t len);

struct fm_process_map {
	uint64_t start, end, off;
	uint32_t dev_major, dev_minor;
	uint64_t inode; // of the file on that device; 0 for anonymous memory
	bool is_executable;
	const char *path; // "" for anonymous memory; lives during the call
};
typedef void (*fm_process_map_fn)(void *ctx, const struct fm_process_map *map);
// Calls each() for the process's mappings. False: it is gone.
bool fm_process_maps(uint32_t pid, fm_process_map_fn each, void *ctx);

// Calls each() for the threads in a process's task folder. False: it is gone.
bool fm_process_threads(int task_fd, void (*each)(void *ctx, uint32_t tid), void *ctx);
