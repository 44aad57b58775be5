// SPDX-License-Identifier: Apache-2.0
// Protocol buffers: the fields of a message one by one, the outermost from the input, those inside
// from its bytes.
#pragma once

#include "base/cursor.h"
#include "import/input.h"

enum { FM_PB_VARINT = 0, FM_PB_64 = 1, FM_PB_BYTES = 2, FM_PB_32 = 5 };

struct fm_pb_field {
	uint32_t number;
	uint8_t wire;
	uint64_t value;        // of a number
	struct fm_cursor body; // of bytes; borrowed
};

// The next field of the file's message. False: the file is over, or *ret_error says what is wrong.
// body lives until the next call.
bool fm_pb_next_of_input(struct fm_input *in, struct fm_pb_field *ret, const char **ret_error);
// The next field of a message in memory. False: it is over, or the cursor holds an error.
bool fm_pb_next(struct fm_cursor *message, struct fm_pb_field *ret);

// The numbers of a repeated field, whether packed or one by one: each call gives one.
//
//	while (fm_pb_next(&c, &f))
//		if (f.number == 1)
//			for (uint64_t v; fm_pb_number(&f, &v);) ...
bool fm_pb_number(struct fm_pb_field *f, uint64_t *ret);

static inline struct fm_str fm_pb_str(const struct fm_pb_field *f)
{
	return (struct fm_str){ (const char *)f->body.pos, (uint32_t)fm_cursor_left(&f->body) };
}
