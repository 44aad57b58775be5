// SPDX-License-Identifier: Apache-2.0
// A 64-bit checksum for bytes on disk: XXH64 as its public specification defines it, so that any
// reader can check it. Finds damage, not malice.
#pragma once

#include <stddef.h>
#include <stdint.h>

uint64_t fm_checksum_xxh64(const void *p, size_t len, uint64_t seed);

// CRC-32 (polynomial 0xedb88320) as .gnu_debuglink and zlib have it; crc is 0 or the result for the
// bytes before.
uint32_t fm_checksum_crc32(const void *p, size_t len, uint32_t crc);
