// SPDX-License-Identifier: Apache-2.0
// The memory events of a profile as blocks: born, freed, and numbered by one order of time across
// all threads.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/mem.h"
#include "read/reader.h"

#define FM_NEVER UINT32_MAX

struct fm_block {
	uint64_t born_ns, freed_ns; // UINT64_MAX = not freed
	uint64_t size, weight;
	uint64_t held; // of weight: what counts as memory; less where a large block was not used in full
	uint32_t stack_id, thread_id, process_id;
	uint32_t node;       // of the view; by fm_heap_build
	uint32_t born, died; // places in the order of events; died by free or with its process; FM_NEVER
	uint8_t domain;
	bool is_leaked; // worked out later
};

// weight * (weight - size): what it adds to the variance of any sum it is in.
static inline double fm_block_variance(const struct fm_block *b)
{
	return b->weight > b->size ? (double)b->weight * (double)(b->weight - b->size) : 0;
}

struct fm_step {
	uint64_t time_ns;
	uint32_t block; // FM_STEP_DIES: it dies
};
#define FM_STEP_DIES (1u << 31)

// Numbers of one process's blocks. The agent counts, so they are mostly dense; any others work,
// too.
struct fm_block_ids {
	uint64_t first, last, n;
	uint32_t *dense; // by id - first: block + 1; NULL = they are in the map
	struct fm_map sparse;
};

struct fm_heap_log {
	FM_VEC(struct fm_block) blocks;
	FM_VEC(struct fm_block) copies;
	FM_VEC(uint64_t) ids; // of blocks
	FM_VEC(struct fm_free) frees;
	size_t max_blocks; // more are thinned out; 0 = as many as fit well
	unsigned thinning; // log2 of how many small blocks each kept one stands for, beyond its weight
	size_t next_thin_frees;
	// By fm_heap_log_sort:
	FM_VEC(struct fm_block_ids) by_id; // by process
	FM_VEC(struct fm_step) steps;      // every birth and death in order of time
	uint64_t last_side_free_ns;        // by any thread but a process's first
	uint64_t begin_ns, end_ns;         // of the run
	uint64_t cut_ns;                   // events end here, though the program went on; 0 = they do not
};

// A zeroed log is empty.
void fm_heap_log_deinit(struct fm_heap_log *log);
void fm_heap_log_alloc(struct fm_heap_log *log, const struct fm_alloc *alloc);
void fm_heap_log_free(struct fm_heap_log *log, const struct fm_free *event);
// Once, when everything was read: matches frees with their allocations and puts all into order. A
// free of an unknown block is nothing; a process's end is the end of its blocks.
void fm_heap_log_sort(struct fm_heap_log *log, const struct fm_profile *profile);
// The block that an id means in a process, or NULL.
const struct fm_block *fm_heap_log_find(const struct fm_heap_log *log, uint32_t process_id, uint64_t id);
// How many steps were done at a time.
uint32_t fm_heap_log_steps_until(const struct fm_heap_log *log, uint64_t time_ns);

// True when the block lives after the first n steps.
static inline bool fm_block_lives_after(const struct fm_block *b, uint32_t n_steps)
{
	return b->born < n_steps && (b->died == FM_NEVER || b->died >= n_steps);
}
