// SPDX-License-Identifier: Apache-2.0
// Reading DWARF's numbers from a bounded range of an image, which may go away meanwhile; what cfi.c
// and expr.c share. Signal-safe.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sigsafe/base/read.h"

struct fm_sig_reader {
	uintptr_t pos, end;
	bool is_bad; // sticky
};

static FM_ALWAYS_INLINE uint64_t fm_sig_read_fixed(struct fm_sig_reader *r, unsigned bytes)
{
	uint64_t v = 0;
	for (unsigned i = 0; i < bytes; i++) {
		uint8_t byte;
		if (r->end - r->pos < bytes - i || !fm_sig_read_u8(r->pos, &byte)) {
			r->is_bad = true;
			r->pos = r->end;
			return 0;
		}
		v |= (uint64_t)byte << (8 * i);
		r->pos++;
	}
	return v;
}

static FM_ALWAYS_INLINE uint64_t fm_sig_read_uleb(struct fm_sig_reader *r)
{
	uint64_t v = 0;
	for (unsigned shift = 0; shift < 64; shift += 7) {
		uint8_t byte = (uint8_t)fm_sig_read_fixed(r, 1);
		v |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return v;
	}
	r->is_bad = true;
	return 0;
}

static inline int64_t fm_sig_read_sleb(struct fm_sig_reader *r)
{
	uint64_t v = 0;
	unsigned shift = 0;
	while (shift < 64) {
		uint8_t byte = (uint8_t)fm_sig_read_fixed(r, 1);
		v |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
		if (!(byte & 0x80)) {
			if (shift < 64 && (byte & 0x40))
				v |= ~0ull << shift;
			return (int64_t)v;
		}
	}
	r->is_bad = true;
	return 0;
}
