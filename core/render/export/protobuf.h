// SPDX-License-Identifier: Apache-2.0
// The wire format of Protocol Buffers, as far as writing goes: a message is its fields one after
// the other, each a number with a kind and then its value; a message inside another is a field of
// bytes. Append to a buffer; what is inside is built first, in one of its own.
#pragma once

#include "base/str.h"

void fm_proto_uint(struct fm_buf *b, uint32_t field, uint64_t value); // also enum, bool, and int32 that is not negative
void fm_proto_double(struct fm_buf *b, uint32_t field, double value);
// A string field. It has to be UTF-8: what is not, and control characters, are replaced.
void fm_proto_text(struct fm_buf *b, uint32_t field, struct fm_str text);
void fm_proto_message(struct fm_buf *b, uint32_t field, const struct fm_buf *inner);
