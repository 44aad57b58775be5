// SPDX-License-Identifier: Apache-2.0
// Text: borrowed slices from outside, and a growable buffer for building output.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/compiler.h"

// A borrowed run of bytes, not NUL-terminated. Whoever lends it says how long it lives.
struct fm_str {
	const char *p;
	uint32_t len;
};

#define FM_STR_LIT(s) ((struct fm_str){ (s), sizeof(s) - 1 })

static inline struct fm_str fm_str_of(const char *s)
{
	return (struct fm_str){ s, (uint32_t)strlen(s) };
}

static inline bool fm_str_eq(struct fm_str a, struct fm_str b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.p, b.p, a.len) == 0);
}

static inline bool fm_str_ends_with(struct fm_str s, const char *end)
{
	size_t n = strlen(end);
	return s.len >= n && !memcmp(s.p + s.len - n, end, n);
}

static inline bool fm_str_starts_with(struct fm_str s, const char *start)
{
	size_t n = strlen(start);
	return s.len >= n && memcmp(s.p, start, n) == 0;
}

// Growable bytes; always NUL-terminated once something was added.
struct fm_buf {
	uint8_t *data;
	size_t len, cap;
};

void fm_buf_deinit(struct fm_buf *b);
void fm_buf_reserve(struct fm_buf *b, size_t extra);
void fm_buf_bytes(struct fm_buf *b, const void *p, size_t len);
void fm_buf_u8(struct fm_buf *b, uint8_t v);
void fm_buf_u32(struct fm_buf *b, uint32_t v); // little-endian
void fm_buf_u64(struct fm_buf *b, uint64_t v);
void fm_buf_varint(struct fm_buf *b, uint64_t v);             // LEB128
void fm_buf_svarint(struct fm_buf *b, int64_t v);             // zigzag, then LEB128
void fm_buf_str(struct fm_buf *b, const char *s);             // the characters, no length
void fm_buf_hex(struct fm_buf *b, const void *p, size_t len); // two digits a byte, in small letters
void fm_buf_printf(struct fm_buf *b, const char *fmt, ...) FM_PRINTF(2, 3);
