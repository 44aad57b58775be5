// SPDX-License-Identifier: Apache-2.0
// The wire format of Protocol Buffers, as far as writing goes: a message is its fields one after
// the other, each a number with a kind and then its value; a message inside another is a field of
// bytes. Append to a buffer; what is inside is built first, in one of its own.
#pragma once

#include <stdio.h>

#include "base/str.h"

void fm_proto_uint(struct fm_buf *b, uint32_t field, uint64_t value); // also enum, bool, and int32 that is not negative
// The same, left out where it is 0: what readers take an absent number for.
void fm_proto_uint_unless_0(struct fm_buf *b, uint32_t field, uint64_t value);
void fm_proto_fixed64(struct fm_buf *b, uint32_t field, uint64_t value);
void fm_proto_double(struct fm_buf *b, uint32_t field, double value);
void fm_proto_bytes(struct fm_buf *b, uint32_t field, const void *p, size_t len);
// A string field. It has to be UTF-8: what is not, and control characters, are replaced.
void fm_proto_text(struct fm_buf *b, uint32_t field, struct fm_str text);
void fm_proto_message(struct fm_buf *b, uint32_t field, const struct fm_buf *inner);
// Several integers as one field. None: nothing.
void fm_proto_uints(struct fm_buf *b, uint32_t field, const uint64_t *values, size_t n);

// The message in b as a field of the one that out is.
void fm_proto_put(FILE *out, uint32_t field, const struct fm_buf *b);
