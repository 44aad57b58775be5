// SPDX-License-Identifier: Apache-2.0
// A character as UTF-8. Plain: also used at signal time.
#pragma once

#include <stdint.h>

// Writes one to four bytes and returns how many. Lone surrogates (undecodable file names) pass as
// three.
static inline uint32_t fm_utf8_encode(uint8_t *to, uint32_t c)
{
	if (c < 0x80) {
		to[0] = (uint8_t)c;
		return 1;
	}
	if (c < 0x800) {
		to[0] = (uint8_t)(0xc0 | c >> 6);
		to[1] = (uint8_t)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		to[0] = (uint8_t)(0xe0 | c >> 12);
		to[1] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
		to[2] = (uint8_t)(0x80 | (c & 0x3f));
		return 3;
	}
	to[0] = (uint8_t)(0xf0 | (c >> 18 & 0x07));
	to[1] = (uint8_t)(0x80 | (c >> 12 & 0x3f));
	to[2] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
	to[3] = (uint8_t)(0x80 | (c & 0x3f));
	return 4;
}
