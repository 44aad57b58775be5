// SPDX-License-Identifier: Apache-2.0
// Hashing, a 64-bit map, and interning of byte strings. For the fathom program, not for signal
// time.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/str.h"

uint64_t fm_hash_bytes(const void *p, size_t len);

static inline uint64_t fm_hash_u64(uint64_t x)
{
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93u;
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93u;
	x ^= x >> 32;
	return x;
}

// Open addressing, any 64-bit key to any 64-bit value. A zeroed struct is an empty map.
struct fm_map {
	struct fm_map_entry {
		uint64_t key, value;
		bool used;
	} * entries;
	size_t n, cap;
};
void fm_map_deinit(struct fm_map *map);
// The value's place, or NULL. Valid until the next fm_map_at().
uint64_t *fm_map_find(const struct fm_map *map, uint64_t key);
// The value's place, made (as 0) when absent; *ret_is_new tells. ret_is_new may be NULL.
uint64_t *fm_map_at(struct fm_map *map, uint64_t key, bool *ret_is_new);

// Byte strings to dense ids 0, 1, 2, ... in order of first sight. A zeroed struct is empty.
struct fm_intern {
	struct fm_arena arena;
	FM_VEC(struct fm_str) strings;
	uint32_t *table; // id + 1, 0 = empty
	size_t cap;
};
void fm_intern_deinit(struct fm_intern *in);
uint32_t fm_intern_id(struct fm_intern *in, struct fm_str s, bool *ret_is_new);
// The id of a string that is there, or UINT32_MAX.
uint32_t fm_intern_find(const struct fm_intern *in, struct fm_str s);
static inline struct fm_str fm_intern_get(const struct fm_intern *in, uint32_t id)
{
	return id < in->strings.n ? in->strings.items[id] : (struct fm_str){ "", 0 };
}

// A 64-bit checksum for bytes on disk: XXH64 as its public specification defines it, so that any
// reader can check it. Finds damage, not malice.
uint64_t fm_checksum_xxh64(const void *p, size_t len, uint64_t seed);

// CRC-32 (polynomial 0xedb88320) as .gnu_debuglink and zlib have it; crc is 0 or the result for the
// bytes before.
uint32_t fm_checksum_crc32(const void *p, size_t len, uint32_t crc);
