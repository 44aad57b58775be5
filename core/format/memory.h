// SPDX-License-Identifier: Apache-2.0
// What a profile says of memory: sampled allocations and frees in batches of columns, one thread
// and chunk each, and the facts beside them (levels, types). docs/format.md, "Memory".
#pragma once

#include <stdint.h>

#include "base/cursor.h"
#include "base/mem.h"
#include "format/columns.h"
#include "format/writer.h"

enum fm_alloc_column {
	FM_ALLOC_TIME, // step from the one before
	FM_ALLOC_STACK,
	FM_ALLOC_SIZE,
	FM_ALLOC_EXTRA, // weight - size: 0 for what was certain to be seen
	FM_ALLOC_ID,    // for a copy, which has none, that of the event before
	FM_ALLOC_DOMAIN,
	FM_N_ALLOC_COLUMNS,
};
enum fm_free_column { FM_FREE_TIME, FM_FREE_ID, FM_N_FREE_COLUMNS };

struct fm_memory_batch {
	uint32_t thread_id;
	uint32_t n, pos;  // events in all, and decoded
	uint64_t time_ns; // of the last event decoded
	bool is_frees;
	struct fm_planes columns[FM_N_ALLOC_COLUMNS]; // FM_N_FREE_COLUMNS of them for frees
};
// The batch borrows the bytes under body.
FM_MUST_CHECK enum fm_err fm_memory_batch_get(struct fm_cursor *body, bool is_frees, struct fm_memory_batch *ret);

#define FM_MEMORY_RUN 256
// Decode up to FM_MEMORY_RUN events; *ret_n is 0 at the batch's end. Stack ids are not checked:
// they need the tables.
FM_MUST_CHECK enum fm_err fm_memory_batch_allocs(struct fm_memory_batch *batch, struct fm_alloc *ret, uint32_t *ret_n);
FM_MUST_CHECK enum fm_err fm_memory_batch_frees(struct fm_memory_batch *batch, struct fm_free *ret, uint32_t *ret_n);

// The writer's part: events that wait for the next chunk, and facts that refer to stacks and so
// come after them.
struct fm_memory_pending {
	FM_VEC(struct fm_alloc) allocs;
	FM_VEC(struct fm_free) frees;
	struct fm_buf facts; // whole records
	FM_VEC(uint64_t) order;
	struct fm_buf body, scratch;
};
void fm_memory_pending_deinit(struct fm_memory_pending *p);
// Appends everything that waits to a chunk's raw bytes, as records.
void fm_memory_pending_put(struct fm_memory_pending *p, struct fm_buf *raw);

// Bodies of the facts; the get functions leave failure in the cursor.
void fm_memory_level_put(struct fm_buf *out, const struct fm_memory_level *level);
struct fm_memory_level fm_memory_level_get(struct fm_cursor *c);
