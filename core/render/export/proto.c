// SPDX-License-Identifier: Apache-2.0
#include "render/export/proto.h"

#include "base/utf8.h"

enum { VARINT = 0, FIXED_64 = 1, LENGTH_AND_BYTES = 2 };

void fm_proto_uint(struct fm_buf *b, uint32_t field, uint64_t value)
{
	fm_buf_varint(b, field << 3 | VARINT);
	fm_buf_varint(b, value);
}

void fm_proto_uint_unless_0(struct fm_buf *b, uint32_t field, uint64_t value)
{
	if (value)
		fm_proto_uint(b, field, value);
}

void fm_proto_fixed64(struct fm_buf *b, uint32_t field, uint64_t value)
{
	fm_buf_varint(b, field << 3 | FIXED_64);
	fm_buf_u64(b, value);
}

void fm_proto_double(struct fm_buf *b, uint32_t field, double value)
{
	uint64_t bits;
	memcpy(&bits, &value, sizeof(bits));
	fm_proto_fixed64(b, field, bits);
}

void fm_proto_bytes(struct fm_buf *b, uint32_t field, const void *p, size_t len)
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
	fm_proto_bytes(b, field, clean.data, clean.len);
	fm_buf_deinit(&clean);
}

void fm_proto_message(struct fm_buf *b, uint32_t field, const struct fm_buf *inner)
{
	fm_proto_bytes(b, field, inner->data, inner->len);
}

static size_t varint_len(uint64_t value)
{
	size_t n = 1;
	for (; value > 0x7f; value >>= 7)
		n++;
	return n;
}

void fm_proto_uints(struct fm_buf *b, uint32_t field, const uint64_t *values, size_t n)
{
	size_t len = 0;
	for (size_t i = 0; i < n; i++)
		len += varint_len(values[i]);
	if (!n)
		return;
	fm_buf_varint(b, field << 3 | LENGTH_AND_BYTES);
	fm_buf_varint(b, len);
	for (size_t i = 0; i < n; i++)
		fm_buf_varint(b, values[i]);
}

void fm_proto_put(FILE *out, uint32_t field, const struct fm_buf *b)
{
	struct fm_buf head = { 0 };
	fm_buf_varint(&head, field << 3 | LENGTH_AND_BYTES);
	fm_buf_varint(&head, b->len);
	fwrite(head.data, 1, head.len, out);
	if (b->len)
		fwrite(b->data, 1, b->len, out);
	fm_buf_deinit(&head);
}
