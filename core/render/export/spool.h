// SPDX-License-Identifier: Apache-2.0
// Sorts a stream of samples by thread without holding it in memory: blocks of one thread each go to
// an unnamed temporary file. Consecutive samples of a thread in the same node and class become one
// record, unless each is to be one.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/mem.h"

struct fm_run {
	uint32_t node;
	uint8_t class;
	uint64_t weight_ns, end_ns; // end_ns: of its last sample
};

#define FM_SPOOL_BLOCK 256 // 256 x 24 bytes of memory per thread

struct fm_spool_thread {
	struct fm_run *block; // being filled
	uint32_t n_in_block;
	FM_VEC(uint64_t) offsets; // of its full blocks
	uint64_t n_runs, weight_ns;
};

struct fm_spool {
	bool keeps_each;
	FILE *file; // made when the first block is full
	uint64_t size;
	FM_VEC(struct fm_spool_thread) threads;
	uint64_t n_runs;
};

// A zeroed spool is empty. Errors come with a line in diag: no room for the temporary file.
FM_MUST_CHECK enum fm_err fm_spool_add(struct fm_spool *s, uint32_t thread_id, struct fm_run run, struct fm_diag *diag);
void fm_spool_deinit(struct fm_spool *s);

// Reads one thread's runs in order, block by block: *ret_n runs at ret (FM_SPOOL_BLOCK of room);
// FM_E_END after the last.
FM_MUST_CHECK enum fm_err fm_spool_read(struct fm_spool *s, uint32_t thread_id, size_t block_idx, struct fm_run *ret,
					uint32_t *ret_n, struct fm_diag *diag);
