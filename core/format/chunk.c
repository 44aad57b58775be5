// SPDX-License-Identifier: Apache-2.0
#include "format/chunk.h"

#include "base/hash.h"
#include "base/cursor.h"

// Offsets in the chunk header.
#define FIELDS_BYTES 20 // mark, type, codec, flags, seq, raw_len, stored_len: what the header's own check covers
#define CHECKSUM_AT 24

static void put_u16(uint8_t *p, uint16_t v)
{
	p[0] = (uint8_t)v;
	p[1] = (uint8_t)(v >> 8);
}

static void put_u32(uint8_t *p, uint32_t v)
{
	put_u16(p, (uint16_t)v);
	put_u16(p + 2, (uint16_t)(v >> 16));
}

static void put_u64(uint8_t *p, uint64_t v)
{
	put_u32(p, (uint32_t)v);
	put_u32(p + 4, (uint32_t)(v >> 32));
}

void fm_file_header_put(uint8_t out[FM_FILE_HEADER_BYTES])
{
	memcpy(out, FM_FILE_MAGIC, FM_FILE_MAGIC_BYTES);
	put_u16(out + 8, FM_FILE_MAJOR);
	put_u16(out + 10, FM_FILE_MINOR);
	put_u32(out + 12, 0);
}

enum fm_err fm_file_header_get(const uint8_t in[FM_FILE_HEADER_BYTES], uint16_t *ret_major, uint16_t *ret_minor)
{
	if (memcmp(in, FM_FILE_MAGIC, FM_FILE_MAGIC_BYTES) != 0)
		return FM_E_BAD_MAGIC;
	struct fm_cursor c = fm_cursor_over(in + FM_FILE_MAGIC_BYTES, 4);
	*ret_major = fm_cursor_u16(&c);
	*ret_minor = fm_cursor_u16(&c);
	return *ret_major != FM_FILE_MAJOR ? FM_E_BAD_VERSION : FM_OK;
}

bool fm_chunk_header_get(const uint8_t in[FM_CHUNK_HEADER_BYTES], struct fm_chunk_header *ret)
{
	if (memcmp(in, FM_CHUNK_MARK, FM_CHUNK_MARK_BYTES) != 0)
		return false;
	struct fm_chunk_header h;
	struct fm_cursor c = fm_cursor_over(in + FM_CHUNK_MARK_BYTES, FM_CHUNK_HEADER_BYTES - FM_CHUNK_MARK_BYTES);
	h.type = fm_cursor_u8(&c);
	h.codec = fm_cursor_u8(&c);
	fm_cursor_u16(&c); // flags: none yet
	h.seq = fm_cursor_u32(&c);
	h.raw_len = fm_cursor_u32(&c);
	h.stored_len = fm_cursor_u32(&c);
	uint32_t check = fm_cursor_u32(&c);
	h.checksum = fm_cursor_u64(&c);
	h.seed = fm_checksum_xxh64(in, FIELDS_BYTES, 0);
	if (c.err || check != (uint32_t)h.seed || h.raw_len > FM_CHUNK_MAX_RAW_BYTES || h.stored_len > h.raw_len)
		return false;
	*ret = h;
	return true;
}

void fm_chunk_seal(ZSTD_CCtx *zstd, enum fm_chunk_type type, uint32_t seq, const void *raw, size_t raw_len,
		   struct fm_buf *out)
{
	out->len = 0;
	size_t bound = FM_MAX(ZSTD_compressBound(raw_len), raw_len);
	fm_buf_reserve(out, FM_CHUNK_HEADER_BYTES + bound);
	uint8_t *header = out->data, *stored = out->data + FM_CHUNK_HEADER_BYTES;
	size_t stored_len = ZSTD_compress2(zstd, stored, bound, raw, raw_len);
	enum fm_chunk_codec codec = FM_CODEC_ZSTD;
	if (ZSTD_isError(stored_len) || stored_len >= raw_len) {
		codec = FM_CODEC_NONE;
		stored_len = raw_len;
		if (raw_len)
			memcpy(stored, raw, raw_len);
	}
	memcpy(header, FM_CHUNK_MARK, FM_CHUNK_MARK_BYTES);
	header[4] = (uint8_t)type;
	header[5] = (uint8_t)codec;
	put_u16(header + 6, 0);
	put_u32(header + 8, seq);
	put_u32(header + 12, (uint32_t)raw_len);
	put_u32(header + 16, (uint32_t)stored_len);
	uint64_t seed = fm_checksum_xxh64(header, FIELDS_BYTES, 0);
	put_u32(header + FIELDS_BYTES, (uint32_t)seed);
	put_u64(header + CHECKSUM_AT, fm_checksum_xxh64(stored, stored_len, seed));
	out->len = FM_CHUNK_HEADER_BYTES + stored_len;
}

enum fm_err fm_chunk_unpack(ZSTD_DCtx *zstd, const struct fm_chunk_header *header, const uint8_t *stored, uint8_t *raw)
{
	if (fm_checksum_xxh64(stored, header->stored_len, header->seed) != header->checksum)
		return FM_E_BAD_CHECKSUM;
	if (header->codec == FM_CODEC_NONE && header->stored_len == header->raw_len) {
		if (header->raw_len)
			memcpy(raw, stored, header->raw_len);
		return FM_OK;
	}
	if (header->codec != FM_CODEC_ZSTD)
		return FM_E_CORRUPT;
	size_t n = ZSTD_decompressDCtx(zstd, raw, header->raw_len, stored, header->stored_len);
	return ZSTD_isError(n) || n != header->raw_len ? FM_E_CORRUPT : FM_OK;
}
