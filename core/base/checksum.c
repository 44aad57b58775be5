// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#include <endian.h>
#include <string.h>

#define PRIME_1 0x9e3779b185ebca87u
#define PRIME_2 0xc2b2ae3d27d4eb4fu
#define PRIME_3 0x165667b19e3779f9u
#define PRIME_4 0x85ebca77c2b2ae63u
#define PRIME_5 0x27d4eb2f165667c5u

static uint64_t load_u64(const uint8_t *p)
{
	uint64_t v;
	memcpy(&v, p, 8);
	return le64toh(v);
}

static uint32_t load_u32(const uint8_t *p)
{
	uint32_t v;
	memcpy(&v, p, 4);
	return le32toh(v);
}

static uint64_t rotate_left(uint64_t v, unsigned n)
{
	return v << n | v >> (64 - n);
}

static uint64_t mix_lane(uint64_t lane, uint64_t input)
{
	return rotate_left(lane + input * PRIME_2, 31) * PRIME_1;
}

uint64_t fm_checksum_xxh64(const void *p, size_t len, uint64_t seed)
{
	const uint8_t *b = p;
	size_t left = len;
	uint64_t h;
	if (len >= 32) {
		// Four lanes that do not wait for each other: this is where the speed comes from.
		uint64_t lanes[4] = { seed + PRIME_1 + PRIME_2, seed + PRIME_2, seed, seed - PRIME_1 };
		for (; left >= 32; b += 32, left -= 32)
			for (unsigned i = 0; i < 4; i++)
				lanes[i] = mix_lane(lanes[i], load_u64(b + 8 * i));
		h = rotate_left(lanes[0], 1) + rotate_left(lanes[1], 7) + rotate_left(lanes[2], 12) +
		    rotate_left(lanes[3], 18);
		for (unsigned i = 0; i < 4; i++)
			h = (h ^ mix_lane(0, lanes[i])) * PRIME_1 + PRIME_4;
	} else {
		h = seed + PRIME_5;
	}
	h += len;
	for (; left >= 8; b += 8, left -= 8)
		h = rotate_left(h ^ mix_lane(0, load_u64(b)), 27) * PRIME_1 + PRIME_4;
	if (left >= 4) {
		h = rotate_left(h ^ load_u32(b) * PRIME_1, 23) * PRIME_2 + PRIME_3;
		b += 4;
		left -= 4;
	}
	for (; left; b++, left--)
		h = rotate_left(h ^ *b * PRIME_5, 11) * PRIME_1;
	h = (h ^ h >> 33) * PRIME_2;
	h = (h ^ h >> 29) * PRIME_3;
	return h ^ h >> 32;
}

// Eight tables, eight bytes a step: debug files are hundreds of megabytes.
uint32_t fm_checksum_crc32(const void *p, size_t len, uint32_t crc)
{
	static uint32_t tables[8][256];
	if (!tables[0][1]) {
		for (uint32_t i = 0; i < 256; i++) {
			uint32_t c = i;
			for (int bit = 0; bit < 8; bit++)
				c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1;
			tables[0][i] = c;
		}
		for (uint32_t i = 0; i < 256; i++)
			for (int t = 1; t < 8; t++)
				tables[t][i] = tables[t - 1][i] >> 8 ^ tables[0][tables[t - 1][i] & 0xff];
	}
	const uint8_t *b = p;
	crc = ~crc;
	for (; len >= 8; b += 8, len -= 8) {
		uint64_t w = load_u64(b) ^ crc;
		crc = 0;
		for (int t = 0; t < 8; t++)
			crc ^= tables[7 - t][w >> 8 * t & 0xff];
	}
	for (; len; b++, len--)
		crc = crc >> 8 ^ tables[0][(crc ^ *b) & 0xff];
	return ~crc;
}
