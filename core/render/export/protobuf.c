// SPDX-License-Identifier: Apache-2.0
#include "render/export/protobuf.h"

#include "base/utf8.h"

enum { VARINT = 0, FIXED_64 = 1, LENGTH_AND_BYTES = 2 };

void fm_proto_uint(struct fm_buf *b, uint32_t field, uint64_t value)
{
	fm_buf_varint(b, field << 3 | VARINT);
	fm_buf_varint(b, value);
}

void fm_proto_double(struct fm_buf *b, uint32_t field, double value)
{
	uint64_t bits;
	memcpy(&bits, &value, sizeof(bits));
	fm_buf_varint(b, field << 3 | FIXED_64);
	fm_buf_u64(b, bits);
}

static void put_bytes(struct fm_buf *b, uint32_t field, const void *p, size_t len)
{
	fm_buf_varint(b, field << 3 | LENGTH_AND_BYTES);
	fm_buf_varint(b, len);
	if (len)
		fm_buf_bytes(b, p, len);
}

void fm_proto_text(struct fm_buf *b, uint32_t field, struct fm_str text)
{
	struct fm_buf clean = { 0 };
	fm_utf8_clean(&clean, text);
	put_bytes(b, field, clean.data, clean.len);
	fm_buf_deinit(&clean);
}

void fm_proto_message(struct fm_buf *b, uint32_t field, const struct fm_buf *inner)
{
	put_bytes(b, field, inner->data, inner->len);
}
