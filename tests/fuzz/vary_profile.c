// SPDX-License-Identifier: Apache-2.0
// Variations of the inputs of fuzz_reader.c that stay profiles: a length that no longer fits, or a
// wrong checksum, ends the reading before anything is read. So a part is varied, and everything
// around it made to fit: the record's length, the chunk's, both checksums.
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/cursor.h"
#include "base/str.h"
#include "format/chunk.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

static unsigned state;

static unsigned dice(unsigned n)
{
	state = state * 1103515245u + 12345u;
	return (state >> 16) % n;
}

static void vary(struct fm_buf *part)
{
	size_t max_size = part->len + 16;
	fm_buf_reserve(part, 16);
	part->len = LLVMFuzzerMutate(part->data, part->len, max_size);
}

struct span {
	size_t at, len;
	bool is_repeated;
};

// ---- raw content of chunks: {u16 n, records} ----

#define REPEATED 0x8000u // fuzz_reader.c

// The spans begin behind a chunk's head, which has two bytes, or four where its content is
// repeated.
static size_t find_chunks(const uint8_t *data, size_t size, struct span *ret, size_t max)
{
	size_t n = 0;
	for (size_t pos = 1; pos + 2 <= size && n < max; n++) {
		size_t len = (size_t)(data[pos] | data[pos + 1] << 8);
		bool is_repeated = len >= REPEATED && size - pos >= 4;
		pos += is_repeated ? 4 : 2;
		len = FM_MIN(is_repeated ? len - REPEATED : len, size - pos);
		ret[n] = (struct span){ pos, len, is_repeated };
		pos += len;
	}
	return n;
}

static size_t find_records(const uint8_t *data, struct span chunk, struct span *ret, size_t max)
{
	struct fm_cursor c = fm_cursor_over(data + chunk.at, chunk.len);
	size_t n = 0;
	while (fm_cursor_left(&c) && n < max) {
		const uint8_t *start = c.pos;
		fm_cursor_varint(&c);
		fm_cursor_bytes(&c, fm_cursor_varint(&c));
		if (c.err)
			break;
		ret[n++] = (struct span){ (size_t)(start - data), (size_t)(c.pos - start) };
	}
	return n;
}

// Where arithmetic goes wrong: around powers of two, and the largest there are.
static uint64_t extreme(void)
{
	static const uint8_t shifts[] = { 7, 8, 14, 16, 24, 28, 31, 32, 33, 35, 48, 62, 63 };
	uint64_t v = 1ull << shifts[dice(sizeof(shifts))];
	switch (dice(5)) {
	case 0:
		return v - 1;
	case 1:
		return v;
	case 2:
		return v + 1;
	case 3:
		return dice(4);
	default:
		return UINT64_MAX - dice(3);
	}
}

// Most of what a body holds are numbers of seven bits a byte: one of them becomes another, all else
// stays.
static void vary_number(struct fm_buf *body)
{
	size_t starts[64], n = 0;
	struct fm_cursor c = fm_cursor_over(body->data, body->len);
	while (n < 64 && fm_cursor_left(&c)) {
		starts[n++] = (size_t)(c.pos - body->data);
		fm_cursor_varint(&c);
	}
	if (!n)
		return;
	size_t at = starts[dice((unsigned)n)];
	c = fm_cursor_over(body->data + at, body->len - at);
	uint64_t old = fm_cursor_varint(&c);
	size_t end = c.err ? body->len : (size_t)(c.pos - body->data);
	struct fm_buf out = { 0 };
	fm_buf_bytes(&out, body->data, at);
	fm_buf_varint(&out, dice(3) ? extreme() : dice(2) ? old + 1 : old - 1);
	fm_buf_bytes(&out, body->data + end, body->len - end);
	fm_buf_deinit(body);
	*body = out;
}

static void put_record(struct fm_buf *out, const uint8_t *record, size_t len, unsigned how)
{
	struct fm_cursor c = fm_cursor_over(record, len);
	uint64_t type = fm_cursor_varint(&c);
	uint64_t body_len = fm_cursor_varint(&c);
	const uint8_t *start = fm_cursor_bytes(&c, body_len);
	struct fm_buf body = { 0 };
	fm_buf_bytes(&body, start ? start : record, start ? body_len : 0);
	if (how && body.len && dice(2))
		vary_number(&body);
	else if (how)
		vary(&body);
	if (how == 2)
		type = dice(40);
	fm_buf_varint(out, type);
	fm_buf_varint(out, body.len);
	fm_buf_bytes(out, body.data ? body.data : (const uint8_t *)"", body.len);
	fm_buf_deinit(&body);
}

// One record varied, twice, gone, or moved behind the next.
static size_t vary_records(uint8_t *data, size_t size, size_t max_size)
{
	struct span chunks[64], records[256];
	size_t n_chunks = find_chunks(data, size, chunks, 64);
	if (!n_chunks)
		return 0;
	struct span chunk = chunks[dice((unsigned)n_chunks)];
	size_t n = find_records(data, chunk, records, 256);
	if (!n)
		return 0;
	size_t which = dice((unsigned)n);
	unsigned what = dice(8);
	struct fm_buf out = { 0 };
	for (size_t i = 0; i < n; i++) {
		const uint8_t *record = data + records[i].at;
		if (i == which && what == 0)
			continue;
		if (i == which && what == 1 && i + 1 < n) {
			put_record(&out, data + records[i + 1].at, records[i + 1].len, 0);
			put_record(&out, record, records[i].len, 0);
			i++;
			continue;
		}
		if (i == which && what == 2)
			put_record(&out, record, records[i].len, 1);
		put_record(&out, record, records[i].len, i == which && what >= 2 ? 1 + (what == 3) : 0);
	}
	size_t old_end = chunk.at + chunk.len, rest = size - old_end, new_size = chunk.at + out.len + rest;
	if (out.len >= REPEATED || new_size > max_size) {
		fm_buf_deinit(&out);
		return 0;
	}
	memmove(data + chunk.at + out.len, data + old_end, rest);
	memcpy(data + chunk.at, out.data ? out.data : (const uint8_t *)"", out.len);
	fm_buf_deinit(&out);
	size_t len = new_size - chunk.at - rest + (chunk.is_repeated ? REPEATED : 0);
	uint8_t *head = data + chunk.at - (chunk.is_repeated ? 4 : 2);
	head[0] = (uint8_t)len;
	head[1] = (uint8_t)(len >> 8);
	return new_size;
}

// A chunk that is there many times over, or once again; its records are the same, so what repeats
// is what they do to the tables.
static size_t repeat_chunk(uint8_t *data, size_t size, size_t max_size)
{
	struct span chunks[64];
	size_t n = find_chunks(data, size, chunks, 64);
	if (!n)
		return 0;
	struct span chunk = chunks[dice((unsigned)n)];
	unsigned times = dice(2) ? 1 + dice(16) : dice(65536);
	if (!chunk.is_repeated) {
		if (size + 2 > max_size || chunk.len >= REPEATED)
			return 0;
		memmove(data + chunk.at + 2, data + chunk.at, size - chunk.at);
		data[chunk.at - 2] = (uint8_t)chunk.len;
		data[chunk.at - 1] = (uint8_t)((chunk.len + REPEATED) >> 8);
		chunk.at += 2;
		size += 2;
	}
	data[chunk.at - 2] = (uint8_t)times;
	data[chunk.at - 1] = (uint8_t)(times >> 8);
	return size;
}

// A chunk behind another one: what is said twice, or before what it needs.
static size_t move_chunk(uint8_t *data, size_t size, size_t max_size)
{
	struct span chunks[64];
	size_t n = find_chunks(data, size, chunks, 64);
	if (n < 2)
		return 0;
	struct span from = chunks[dice((unsigned)n)], to = chunks[dice((unsigned)n)];
	size_t head = from.is_repeated ? 4 : 2, len = head + from.len, at = to.at + to.len;
	if (size + len > max_size)
		return 0;
	struct fm_buf copy = { 0 };
	fm_buf_bytes(&copy, data + from.at - head, len);
	memmove(data + at + len, data + at, size - at);
	memcpy(data + at, copy.data, len);
	fm_buf_deinit(&copy);
	return size + len;
}

// ---- a whole file: what a chunk's header says, and what zstd is given ----

#define FIELDS_BYTES 20 // docs/format.md
#define RAW_LEN_AT 12
#define STORED_LEN_AT 16
#define CHECKSUM_AT 24

static void put_u32(uint8_t *p, uint32_t v)
{
	for (unsigned i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> 8 * i);
}

static void seal(uint8_t *header, const uint8_t *stored, size_t len)
{
	put_u32(header + STORED_LEN_AT, (uint32_t)len);
	uint64_t seed = fm_checksum_xxh64(header, FIELDS_BYTES, 0), sum = fm_checksum_xxh64(stored, len, seed);
	put_u32(header + FIELDS_BYTES, (uint32_t)seed);
	put_u32(header + CHECKSUM_AT, (uint32_t)sum);
	put_u32(header + CHECKSUM_AT + 4, (uint32_t)(sum >> 32));
}

static size_t vary_chunk(uint8_t *data, size_t size, size_t max_size)
{
	struct span chunks[64];
	size_t n = 0;
	for (size_t pos = 1 + FM_FILE_HEADER_BYTES; pos + FM_CHUNK_HEADER_BYTES <= size && n < 64;) {
		struct fm_chunk_header h;
		if (!fm_chunk_header_get(data + pos, &h) || h.stored_len > size - pos - FM_CHUNK_HEADER_BYTES)
			break;
		chunks[n++] = (struct span){ pos, h.stored_len };
		pos += FM_CHUNK_HEADER_BYTES + (size_t)h.stored_len;
	}
	if (!n)
		return 0;
	struct span chunk = chunks[dice((unsigned)n)];
	uint8_t *header = data + chunk.at, *stored = header + FM_CHUNK_HEADER_BYTES;
	struct fm_buf payload = { 0 };
	fm_buf_bytes(&payload, stored, chunk.len);
	unsigned what = dice(4);
	if (what == 0)
		put_u32(header + RAW_LEN_AT, dice(2)   ? dice(65536)
					     : dice(2) ? (uint32_t)extreme()
						       : (uint32_t)payload.len);
	else if (what == 1)
		header[4 + dice(8)] = (uint8_t)dice(4); // type, codec, flags, number
	else
		vary(&payload);
	size_t old_end = (size_t)(stored - data) + chunk.len, rest = size - old_end;
	size_t new_size = (size_t)(stored - data) + payload.len + rest;
	if (new_size > max_size) {
		fm_buf_deinit(&payload);
		return 0;
	}
	memmove(stored + payload.len, data + old_end, rest);
	memcpy(stored, payload.data ? payload.data : (const uint8_t *)"", payload.len);
	seal(header, stored, payload.len);
	fm_buf_deinit(&payload);
	return new_size;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
	state = seed;
	size_t varied = 0;
	if (size && dice(16) == 0)
		data[0] = (uint8_t)((data[0] & 1) | dice(128) << 1); // another format
	if (size && data[0] % 2 && dice(16) == 0)
		varied = dice(2) ? repeat_chunk(data, size, max_size) : move_chunk(data, size, max_size);
	else if (size && dice(8))
		varied = data[0] % 2 ? vary_records(data, size, max_size) : vary_chunk(data, size, max_size);
	return varied ? varied : LLVMFuzzerMutate(data, size, max_size);
}
