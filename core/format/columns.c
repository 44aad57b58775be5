// SPDX-License-Identifier: Apache-2.0
#include "format/columns.h"

static unsigned width_of(uint64_t v)
{
	return v ? (71 - (unsigned)__builtin_clzll(v)) / 8 : 0;
}

void fm_column_put(struct fm_buf *out, const uint64_t *values, uint32_t n, unsigned min_width)
{
	uint64_t min = values[0], max = values[0];
	for (uint32_t i = 1; i < n; i++) {
		min = FM_MIN(min, values[i]);
		max = FM_MAX(max, values[i]);
	}
	unsigned width = FM_MAX(width_of(max - min), min_width);
	fm_buf_varint(out, min);
	fm_buf_u8(out, (uint8_t)width);
	fm_buf_reserve(out, (size_t)n * width);
	uint8_t *p = out->data + out->len;
	for (unsigned k = 0; k < width; k++)
		for (uint32_t i = 0; i < n; i++)
			*p++ = (uint8_t)((values[i] - min) >> (8 * k));
	out->len += (size_t)n * width;
}

struct fm_planes fm_column_get(struct fm_cursor *body, uint32_t n, unsigned min_width)
{
	struct fm_planes p = { 0 };
	p.min = fm_cursor_varint(body);
	p.width = fm_cursor_u8(body);
	if (p.width > 8 || p.width < min_width)
		fm_cursor_fail(body, FM_E_CORRUPT);
	p.bytes = fm_cursor_bytes(body, (uint64_t)n * p.width);
	return p;
}

// The usual widths as one expression each: the compiler makes them one load and shift per plane,
// without an inner loop.
void fm_column_decode(const struct fm_planes *column, uint32_t stride, uint32_t pos, uint32_t n, uint64_t *restrict ret)
{
	uint64_t min = column->min;
	const uint8_t *p[8];
	for (unsigned k = 0; k < column->width; k++)
		p[k] = column->bytes + (size_t)k * stride + pos;
	switch (column->width) {
	case 0:
		for (uint32_t i = 0; i < n; i++)
			ret[i] = min;
		break;
	case 1:
		for (uint32_t i = 0; i < n; i++)
			ret[i] = min + p[0][i];
		break;
	case 2:
		for (uint32_t i = 0; i < n; i++)
			ret[i] = min + (p[0][i] | (uint32_t)p[1][i] << 8);
		break;
	case 3:
		for (uint32_t i = 0; i < n; i++)
			ret[i] = min + (p[0][i] | (uint32_t)p[1][i] << 8 | (uint32_t)p[2][i] << 16);
		break;
	case 4:
		for (uint32_t i = 0; i < n; i++)
			ret[i] = min +
				 (p[0][i] | (uint32_t)p[1][i] << 8 | (uint32_t)p[2][i] << 16 | (uint32_t)p[3][i] << 24);
		break;
	default:
		for (uint32_t i = 0; i < n; i++) {
			uint64_t v = 0;
			for (unsigned k = 0; k < column->width; k++)
				v |= (uint64_t)p[k][i] << (8 * k);
			ret[i] = min + v;
		}
	}
}
