// SPDX-License-Identifier: Apache-2.0
// One row of a table that is queried: what its columns hold, in their order. Text is lent; what is
// dear to make (a whole stack as text) is only named here, and made when somebody reads it.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "aggregate/tally/weight.h"
#include "base/str.h"

enum fm_value_kind {
	FM_VALUE_NULL,
	FM_VALUE_INTEGER,
	FM_VALUE_REAL,
	FM_VALUE_TEXT,
	// Made by fm_query_text():
	FM_VALUE_STACK,   // node: its frames, outermost first, separated by ';'
	FM_VALUE_SOURCE,  // function_id, line: that line of its file, without the blanks before it
	FM_VALUE_HEX,     // text: its bytes as hexadecimal digits
	FM_VALUE_COMMAND, // text: arguments joined by NUL, as one line for a shell
};

struct fm_value {
	uint8_t kind; // enum fm_value_kind
	union {
		int64_t integer;
		double real;
		struct fm_str text;
		uint32_t node;
		struct {
			uint32_t function_id, line;
		};
	};
};

#define FM_ROW_MAX_COLUMNS 40
struct fm_row {
	unsigned n;
	struct fm_value values[FM_ROW_MAX_COLUMNS];
};

static inline void fm_row_put(struct fm_row *r, struct fm_value value)
{
	if (r->n < FM_ROW_MAX_COLUMNS)
		r->values[r->n++] = value;
}

static inline void fm_row_null(struct fm_row *r)
{
	fm_row_put(r, (struct fm_value){ .kind = FM_VALUE_NULL });
}

// SQL's integers end where those of a signed 64-bit number do; no sum of bytes or samples gets there.
static inline void fm_row_u64(struct fm_row *r, uint64_t value)
{
	fm_row_put(r, (struct fm_value){ .kind = FM_VALUE_INTEGER,
					 .integer = value < INT64_MAX ? (int64_t)value : INT64_MAX });
}

static inline void fm_row_id(struct fm_row *r, uint32_t id)
{
	if (id == FM_NO_ID)
		fm_row_null(r);
	else
		fm_row_u64(r, id);
}

static inline void fm_row_real(struct fm_row *r, double value)
{
	fm_row_put(r, (struct fm_value){ .kind = FM_VALUE_REAL, .real = value });
}

static inline void fm_row_seconds(struct fm_row *r, uint64_t ns)
{
	fm_row_real(r, fm_seconds(ns));
}

static inline void fm_row_text(struct fm_row *r, struct fm_str text)
{
	fm_row_put(r, (struct fm_value){ .kind = FM_VALUE_TEXT, .text = text });
}

// How a process ended: its code (-1 = not known) and the signal (0 = none).
static inline void fm_row_exit(struct fm_row *r, int code, int signal)
{
	fm_row_id(r, code >= 0 && !signal ? (uint32_t)code : FM_NO_ID);
	fm_row_id(r, signal ? (uint32_t)signal : FM_NO_ID);
}

// In the order of the classes: FM_CLASS_COLUMNS of columns.h.
static inline void fm_row_classes(struct fm_row *r, const struct fm_weight *w)
{
	for (unsigned c = 0; c < FM_N_CLASSES; c++)
		fm_row_seconds(r, w->ns[c]);
}
