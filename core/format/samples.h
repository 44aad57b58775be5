// The samples of one thread in one chunk: a batch of four columns of varints (docs/format.md, "Samples").
//
// Columns rather than rows because equal things side by side compress better, and because each column decodes in a tight loop.
// A batch starts from its own base time, so it can be read whatever happened to the chunks before it.
#pragma once

#include <stdint.h>

#include "base/cursor.h"
#include "base/str.h"
#include "format/writer.h"

// class is the low 4 bits of the place column, cpu the rest.
#define FM_SAMPLE_CLASS_BITS 4

// Appends the body of a FM_RECORD_SAMPLES record for samples[order[0..n-1]], all of one thread and in order of time; n > 0.
// columns: four buffers, scratch space kept from call to call.
void fm_samples_put(struct fm_buf *out, struct fm_buf columns[4], const struct fm_sample *samples, const uint32_t *order,
		    uint32_t n);

struct fm_sample_batch {
	uint32_t thread_id;
	uint32_t n_left;
	uint64_t time_ns; // of the last sample decoded
	struct fm_cursor times, stacks, weights, places;
};
FM_MUST_CHECK enum fm_err fm_samples_get(struct fm_cursor *body, struct fm_sample_batch *ret);

// Decodes up to cap samples. *ret_n is 0 at the batch's end. Stack ids are not checked: they need the tables.
FM_MUST_CHECK enum fm_err fm_sample_batch_decode(struct fm_sample_batch *batch, struct fm_sample *ret, uint32_t cap, uint32_t *ret_n);
