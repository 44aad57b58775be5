// SPDX-License-Identifier: Apache-2.0
// Columns of byte planes: how batches of samples and of memory events keep their numbers
// (docs/format.md, "Samples").
//
// A column is {varint min, u8 width, width planes of n bytes, lowest first}; value[i] = min + sum
// of plane_k[i] << 8k.
#pragma once

#include <stdint.h>

#include "base/cursor.h"
#include "base/str.h"

// min_width 1: a column that takes room for every value, so that a record's length bounds their
// number.
void fm_column_put(struct fm_buf *out, const uint64_t *values, uint32_t n, unsigned min_width);

struct fm_planes {
	uint64_t min;         // added to every value
	const uint8_t *bytes; // width planes of n bytes each, lowest first
	unsigned width;       // 0 to 8
};
// Borrows the bytes under body. Failure stays in the cursor.
struct fm_planes fm_column_get(struct fm_cursor *body, uint32_t n, unsigned min_width);
// Values pos .. pos + n - 1 of a column of `stride` values.
void fm_column_decode(const struct fm_planes *column, uint32_t stride, uint32_t pos, uint32_t n,
		      uint64_t *restrict ret);

// The step from one number to the next, small in either direction.
static inline uint64_t fm_zigzag(uint64_t step)
{
	return step << 1 ^ -(step >> 63);
}
static inline uint64_t fm_unzigzag(uint64_t v)
{
	return v >> 1 ^ -(v & 1);
}
