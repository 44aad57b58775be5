// SPDX-License-Identifier: Apache-2.0
// The samples of one thread in one chunk: a batch of four columns of byte planes (docs/format.md,
// "Samples").
//
// Columns rather than rows because equal things side by side compress better; byte planes rather
// than varints because they decode three times as fast and the compressor sees the quiet high bytes
// as runs. A batch starts from its own base time, so it can be read whatever happened to the chunks
// before it.
#pragma once

#include <stdint.h>

#include "base/cursor.h"
#include "base/str.h"
#include "format/columns.h"
#include "format/writer.h"

// class is the low 4 bits of the place column, cpu the rest.
#define FM_SAMPLE_CLASS_BITS 4

enum fm_sample_column { FM_COLUMN_TIME, FM_COLUMN_STACK, FM_COLUMN_WEIGHT, FM_COLUMN_PLACE, FM_N_COLUMNS };

// Appends the body of a FM_RECORD_SAMPLES record for samples[order[0..n-1]], all of one thread and
// in order of time; n > 0. scratch is kept from call to call.
void fm_samples_put(struct fm_buf *out, struct fm_buf *scratch, const struct fm_sample *samples, const uint32_t *order,
		    uint32_t n);

struct fm_sample_batch {
	uint32_t thread_id;
	uint32_t n, pos;  // samples in all, and decoded
	uint64_t time_ns; // of the last sample decoded
	struct fm_planes columns[FM_N_COLUMNS];
};
// The batch borrows the bytes under body.
FM_MUST_CHECK enum fm_err fm_samples_get(struct fm_cursor *body, struct fm_sample_batch *ret);

#define FM_SAMPLE_RUN 512 // four columns of a run fit the first-level cache
// Decodes up to FM_SAMPLE_RUN samples. *ret_n is 0 at the batch's end. Stack ids are not checked:
// they need the tables.
FM_MUST_CHECK enum fm_err fm_sample_batch_decode(struct fm_sample_batch *batch, struct fm_sample *ret, uint32_t *ret_n);
