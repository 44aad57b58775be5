// SPDX-License-Identifier: Apache-2.0
#include "base/str.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"

void fm_buf_deinit(struct fm_buf *b)
{
	free(b->data);
	*b = (struct fm_buf){ 0 };
}

void fm_buf_reserve(struct fm_buf *b, size_t extra)
{
	size_t want = b->len + extra + 1; // the NUL
	if (want <= b->cap)
		return;
	size_t cap = FM_MAX(FM_MAX(want, b->cap * 2), (size_t)64);
	b->data = fm_realloc_array(b->data, cap, 1);
	b->cap = cap;
}

void fm_buf_bytes(struct fm_buf *b, const void *p, size_t len)
{
	fm_buf_reserve(b, len);
	if (len)
		memcpy(b->data + b->len, p, len);
	b->len += len;
	b->data[b->len] = 0;
}

void fm_buf_u8(struct fm_buf *b, uint8_t v)
{
	fm_buf_bytes(b, &v, 1);
}

void fm_buf_u32(struct fm_buf *b, uint32_t v)
{
	uint8_t bytes[4] = { (uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24) };
	fm_buf_bytes(b, bytes, 4);
}

void fm_buf_u64(struct fm_buf *b, uint64_t v)
{
	fm_buf_u32(b, (uint32_t)v);
	fm_buf_u32(b, (uint32_t)(v >> 32));
}

void fm_buf_varint(struct fm_buf *b, uint64_t v)
{
	uint8_t bytes[10];
	size_t n = 0;
	for (; v >= 0x80; v >>= 7)
		bytes[n++] = (uint8_t)(v | 0x80);
	bytes[n++] = (uint8_t)v;
	fm_buf_bytes(b, bytes, n);
}

void fm_buf_svarint(struct fm_buf *b, int64_t v)
{
	fm_buf_varint(b, ((uint64_t)v << 1) ^ (uint64_t)(v >> 63));
}

void fm_buf_str(struct fm_buf *b, const char *s)
{
	fm_buf_bytes(b, s, strlen(s));
}

void fm_buf_hex(struct fm_buf *b, const void *p, size_t len)
{
	const uint8_t *bytes = p;
	for (size_t i = 0; i < len; i++)
		fm_buf_printf(b, "%02x", bytes[i]);
}

void fm_buf_printf(struct fm_buf *b, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	va_list again;
	va_copy(again, args);
	int n = vsnprintf(NULL, 0, fmt, args);
	va_end(args);
	if (n > 0) {
		fm_buf_reserve(b, (size_t)n);
		vsnprintf((char *)b->data + b->len, (size_t)n + 1, fmt, again);
		b->len += (size_t)n;
	}
	va_end(again);
}
