// SPDX-License-Identifier: Apache-2.0
// Typed columns with names, and how they become bytes: a JSON head, then each column at an 8-byte
// boundary (docs/viewer-data.md).
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "base/json.h"
#include "base/mem.h"

enum fm_column_type {
	FM_COLUMN_U8,
	FM_COLUMN_U16,
	FM_COLUMN_U32,
	FM_COLUMN_I32,
	FM_COLUMN_F32,
	FM_COLUMN_F64,
};

struct fm_column {
	const char *name; // a literal
	enum fm_column_type type;
	size_t n;
	void *data;
};

struct fm_columns {
	FM_VEC(struct fm_column) items;
};

// A zeroed struct has none.
void fm_columns_deinit(struct fm_columns *c);

// A new column of n zeroes, lent to be filled.
uint8_t *fm_columns_u8(struct fm_columns *c, const char *name, size_t n);
uint16_t *fm_columns_u16(struct fm_columns *c, const char *name, size_t n);
uint32_t *fm_columns_u32(struct fm_columns *c, const char *name, size_t n);
int32_t *fm_columns_i32(struct fm_columns *c, const char *name, size_t n);
float *fm_columns_f32(struct fm_columns *c, const char *name, size_t n);
double *fm_columns_f64(struct fm_columns *c, const char *name, size_t n);

// Writes the whole message. add_head adds members to the head beside `schema` and `columns`.
void fm_columns_write(const struct fm_columns *c, FILE *out, void (*add_head)(struct fm_json *j, void *ctx), void *ctx);
