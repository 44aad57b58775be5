// SPDX-License-Identifier: Apache-2.0
// The one gate for untrusted bytes: bounds-checked reads with a sticky error.
//
// The first failure wins: later reads give 0 and do not move. So read several fields, then ask
// c->err once. Read one field per statement: C leaves the order inside an initialiser open.
#pragma once

#include <endian.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"

struct fm_cursor {
	const uint8_t *pos, *end;
	enum fm_err err;
};

static inline struct fm_cursor fm_cursor_over(const void *p, size_t len)
{
	return (struct fm_cursor){ p, (const uint8_t *)p + len, FM_OK };
}

static inline size_t fm_cursor_left(const struct fm_cursor *c)
{
	return (size_t)(c->end - c->pos);
}

static inline void fm_cursor_fail(struct fm_cursor *c, enum fm_err err)
{
	if (!c->err)
		c->err = err;
	c->pos = c->end;
}

// Borrows len bytes; they live as long as the buffer under the cursor. NULL on failure.
static inline const uint8_t *fm_cursor_bytes(struct fm_cursor *c, uint64_t len)
{
	if (c->err || len > fm_cursor_left(c)) {
		fm_cursor_fail(c, FM_E_TRUNCATED);
		return NULL;
	}
	const uint8_t *p = c->pos;
	c->pos += len;
	return p;
}

static inline uint8_t fm_cursor_u8(struct fm_cursor *c)
{
	const uint8_t *p = fm_cursor_bytes(c, 1);
	return p ? *p : 0;
}

static inline uint16_t fm_cursor_u16(struct fm_cursor *c)
{
	const uint8_t *p = fm_cursor_bytes(c, 2);
	return p ? (uint16_t)(p[0] | p[1] << 8) : 0;
}

static inline uint32_t fm_cursor_u32(struct fm_cursor *c)
{
	const uint8_t *p = fm_cursor_bytes(c, 4);
	return p ? (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24 : 0;
}

static inline uint64_t fm_cursor_u64(struct fm_cursor *c)
{
	uint64_t low = fm_cursor_u32(c);
	return low | (uint64_t)fm_cursor_u32(c) << 32;
}

static inline uint64_t fm_cursor_varint_slow(struct fm_cursor *c)
{
	uint64_t v = 0;
	for (unsigned shift = 0; shift < 64; shift += 7) {
		uint8_t byte = fm_cursor_u8(c);
		v |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return c->err ? 0 : v;
	}
	fm_cursor_fail(c, FM_E_CORRUPT); // more than ten bytes is no 64-bit number
	return 0;
}

// LEB128. Numbers of up to eight bytes are decoded from one load, without a branch per byte:
// profiles are mostly these.
static inline uint64_t fm_cursor_varint(struct fm_cursor *c)
{
	if (FM_UNLIKELY(fm_cursor_left(c) < 8)) // also after a failure: then nothing is left
		return fm_cursor_varint_slow(c);
	uint64_t w;
	memcpy(&w, c->pos, 8);
	w = le64toh(w);
	uint64_t stop = ~w & 0x8080808080808080u; // the high bit of each byte that may be the last
	if (FM_UNLIKELY(!stop))
		return fm_cursor_varint_slow(c);
	c->pos += (__builtin_ctzll(stop) >> 3) + 1;
	w &= stop ^ (stop - 1); // what lies beyond the last byte belongs to the next number
	w = (w & 0x007f007f007f007fu) | (w & 0x7f007f007f007f00u) >> 1;
	w = (w & 0x00003fff00003fffu) | (w & 0x3fff00003fff0000u) >> 2;
	return (w & 0x000000000fffffffu) | (w & 0x0fffffff00000000u) >> 4;
}

static inline int64_t fm_cursor_svarint(struct fm_cursor *c)
{
	uint64_t v = fm_cursor_varint(c);
	return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

// A varint length and that many bytes, borrowed.
static inline struct fm_str fm_cursor_str(struct fm_cursor *c)
{
	uint64_t len = fm_cursor_varint(c);
	if (len > UINT32_MAX)
		fm_cursor_fail(c, FM_E_CORRUPT);
	const uint8_t *p = fm_cursor_bytes(c, c->err ? 0 : len);
	return p && !c->err ? (struct fm_str){ (const char *)p, (uint32_t)len } : (struct fm_str){ "", 0 };
}
