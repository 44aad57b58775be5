// SPDX-License-Identifier: Apache-2.0
// The outer shape of a .fathom file: a file header, then chunks, each of which can be checked and
// read on its own. docs/format.md draws it. All numbers are little-endian.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <zstd.h>

#include "base/err.h"
#include "base/str.h"

// The first byte is no text and the last is a newline, so a transfer that rewrites line ends or
// strips the eighth bit shows at once.
#define FM_FILE_MAGIC \
	"\x89"        \
	"FATHOM\n"
#define FM_FILE_MAGIC_BYTES 8
#define FM_FILE_HEADER_BYTES 16
// A reader refuses a larger major number; a larger minor one only brings chunks and records that it
// passes over.
#define FM_FILE_MAJOR 1
#define FM_FILE_MINOR 0

#define FM_CHUNK_HEADER_BYTES 32
#define FM_CHUNK_MARK \
	"\xfa"        \
	"chk"
#define FM_CHUNK_MARK_BYTES 4
// What a reader must be ready to hold. The writer cuts at 256 KiB; only one huge source text makes
// a larger chunk.
#define FM_CHUNK_MAX_RAW_BYTES ((uint32_t)64 << 20)

enum fm_chunk_type {
	FM_CHUNK_RECORDS = 1, // records one after the other (record.h)
	FM_CHUNK_END = 2, // the writer closed the file: varint total of samples written, varint total of memory events
};

enum fm_chunk_codec {
	FM_CODEC_NONE = 0, // stored as it is, because compression did not make it smaller
	FM_CODEC_ZSTD = 1, // one zstd frame, no dictionary
};

struct fm_chunk_header {
	uint8_t type;                 // enum fm_chunk_type; others are passed over
	uint8_t codec;                // enum fm_chunk_codec
	uint32_t seq;                 // 0, 1, 2, ...: a gap tells how many chunks were lost
	uint32_t raw_len, stored_len; // stored_len <= raw_len <= FM_CHUNK_MAX_RAW_BYTES
	uint64_t checksum;            // of the stored bytes, seeded with the hash of the fields above
	uint64_t seed;                // that hash; not in the file
};

void fm_file_header_put(uint8_t out[FM_FILE_HEADER_BYTES]);
// FM_E_BAD_MAGIC, FM_E_BAD_VERSION or FM_OK.
enum fm_err fm_file_header_get(const uint8_t in[FM_FILE_HEADER_BYTES], uint16_t *ret_major, uint16_t *ret_minor);

// False when these 32 bytes are no chunk header: wrong mark, wrong check, impossible lengths.
bool fm_chunk_header_get(const uint8_t in[FM_CHUNK_HEADER_BYTES], struct fm_chunk_header *ret);

// Replaces out's content by a whole chunk, header and all. raw_len <= FM_CHUNK_MAX_RAW_BYTES.
void fm_chunk_seal(ZSTD_CCtx *zstd, enum fm_chunk_type type, uint32_t seq, const void *raw, size_t raw_len,
		   struct fm_buf *out);
// Checks the stored bytes and unpacks them into raw, which has room for header->raw_len bytes.
FM_MUST_CHECK enum fm_err fm_chunk_unpack(ZSTD_DCtx *zstd, const struct fm_chunk_header *header, const uint8_t *stored,
					  uint8_t *raw);
