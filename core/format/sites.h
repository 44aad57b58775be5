// SPDX-License-Identifier: Apache-2.0
// Exact mode's sums in batches of columns, one process and chunk each (docs/format.md, "Memory").
// Most sites are alike: something made once and kept, so that peak, live bytes and all bytes are
// one number. The columns hold what is left when that is taken away.
#pragma once

#include <stdint.h>

#include "base/cursor.h"
#include "base/mem.h"
#include "format/columns.h"
#include "format/writer.h"

enum fm_site_column {
	FM_SITE_STACK, // step from the one before
	FM_SITE_PEAK,
	FM_SITE_TURNOVER, // alloc_bytes - peak_bytes
	FM_SITE_GIVEN,    // peak_bytes - live_bytes
	FM_SITE_MISSED,   // peak_bytes - at_peak_bytes
	FM_SITE_ALLOCS,
	FM_SITE_LEFT, // n_allocs - n_frees
	FM_SITE_HELD,
	FM_SITE_DOMAIN,
	FM_N_SITE_COLUMNS,
};

struct fm_site_batch {
	uint32_t process_id;
	uint32_t n, pos;   // sites in all, and decoded
	uint64_t stack_id; // of the last site decoded
	struct fm_planes columns[FM_N_SITE_COLUMNS];
};
// The batch borrows the bytes under body.
FM_MUST_CHECK enum fm_err fm_site_batch_get(struct fm_cursor *body, struct fm_site_batch *ret);
// The next site. Its stack is not checked: that needs the tables. FM_E_NOT_FOUND at the end.
FM_MUST_CHECK enum fm_err fm_site_batch_next(struct fm_site_batch *batch, struct fm_site *ret);

// The writer's part: sites that wait for the next chunk.
struct fm_sites_pending {
	FM_VEC(struct fm_site) sites;
	struct fm_buf body, scratch;
};
void fm_sites_pending_deinit(struct fm_sites_pending *p);
// Appends them to a chunk's raw bytes, as records.
void fm_sites_pending_put(struct fm_sites_pending *p, struct fm_buf *raw);
