// SPDX-License-Identifier: Apache-2.0
// bomb_profile KIND BYTES FILE: a profile of about so many bytes that unpacks to as much as zstd
// can make of them. Every chunk and record is whole and possible by itself.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "format/chunk.h"
#include "format/columns.h"
#include "format/record.h"

#define RAW_BYTES ((size_t)60 << 20)

struct bomb {
	struct fm_buf raw, head, body, sealed;
	uint32_t seq, n_strings, n_stacks, n_threads;
	uint64_t n_allocs;
};

static void put(struct bomb *b, enum fm_record_type type)
{
	fm_record_put(&b->raw, type, &b->head, b->body.data, b->body.len);
	b->head.len = b->body.len = 0;
}

static void fill(struct fm_buf *to, uint8_t byte, size_t n)
{
	fm_buf_reserve(to, n);
	memset(to->data + to->len, byte, n);
	to->len += n;
}

// ---- one record each, of which a chunk is full ----

static void put_strings(struct bomb *b) // empty ones, a byte each
{
	uint32_t n = 1 << 20;
	fm_record_put_batch(&b->head, (struct fm_record_batch){ b->n_strings + 1, n });
	fill(&b->body, 0, n);
	b->n_strings += n;
	put(b, FM_RECORD_STRINGS);
}

static void put_sources(struct bomb *b)
{
	fm_record_put_str(&b->head, FM_STR_LIT("a.py"));
	fm_buf_varint(&b->head, 1 << 20);
	fill(&b->body, 'x', 1 << 20);
	put(b, FM_RECORD_SOURCE);
}

static void put_stacks(struct bomb *b) // each the child of the one before, in the same frame
{
	uint32_t n = 1 << 20;
	fm_record_put_batch(&b->head, (struct fm_record_batch){ b->n_stacks + 1, n });
	fill(&b->body, 0, (size_t)2 * n);
	for (uint32_t i = 0; i < n; i++)
		b->body.data[2 * i] = 1;
	b->n_stacks += n;
	put(b, FM_RECORD_STACKS);
}

static void put_metas(struct bomb *b) // few keys more than a reader keeps, over and over
{
	for (uint32_t i = 0; i < 5000; i++) {
		char key[16];
		snprintf(key, sizeof(key), "k%u", i);
		fm_record_put_str(&b->head, fm_str_of(key));
		fm_record_put_str(&b->head, FM_STR_LIT(""));
		put(b, FM_RECORD_META);
	}
}

static void put_coverages(struct bomb *b)
{
	fm_record_put_str(&b->head, FM_STR_LIT("a"));
	fm_record_put_str(&b->head, FM_STR_LIT("b"));
	put(b, FM_RECORD_COVERAGE);
}

static void put_threads(struct bomb *b)
{
	const uint32_t fields[] = { b->n_threads++, 0, 7, 0 };
	for (size_t i = 0; i < 4; i++)
		fm_buf_varint(&b->head, fields[i]);
	put(b, FM_RECORD_THREAD);
}

static void put_column(struct fm_buf *to, uint64_t min, unsigned width, uint32_t n)
{
	fm_buf_varint(to, min);
	fm_buf_u8(to, (uint8_t)width);
	fill(to, 0, (size_t)width * n);
}

static void put_samples(struct bomb *b) // a byte each
{
	uint32_t n = 1 << 20;
	fm_buf_varint(&b->head, 0);
	fm_buf_varint(&b->head, n);
	fm_buf_varint(&b->head, 1);
	for (unsigned i = 0; i < 4; i++)
		put_column(&b->head, i == 3 ? 0 : 1, i == 3, n);
	put(b, FM_RECORD_SAMPLES);
}

static void put_allocs(struct bomb *b) // all live, none the same
{
	uint32_t n = 1 << 16;
	fm_buf_varint(&b->head, 0);
	fm_buf_varint(&b->head, n);
	fm_buf_varint(&b->head, 1);
	uint64_t *ids = calloc(n, sizeof(*ids));
	for (uint32_t i = 0; i < n; i++)
		ids[i] = ++b->n_allocs;
	for (unsigned i = 0; i < 6; i++)
		if (i == 4)
			fm_column_put(&b->head, ids, n, 0);
		else
			put_column(&b->head, i == 5 ? 0 : 1, i == 5, n);
	free(ids);
	put(b, FM_RECORD_ALLOCS);
}

static void put_unknown(struct bomb *b) // of a version that is to come
{
	fill(&b->body, 0, 1 << 20);
	put(b, 4711);
}

static const struct {
	const char *name;
	void (*put)(struct bomb *b);
} kinds[] = {
	{ "strings", put_strings }, { "sources", put_sources },     { "stacks", put_stacks },
	{ "metas", put_metas },     { "coverages", put_coverages }, { "threads", put_threads },
	{ "samples", put_samples }, { "allocs", put_allocs },       { "unknown", put_unknown },
};

int main(int argc, char **argv)
{
	struct bomb b = { 0 };
	void (*put_one)(struct bomb * b) = NULL;
	for (size_t i = 0; argc == 4 && i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(argv[1], kinds[i].name))
			put_one = kinds[i].put;
	FILE *out = put_one ? fopen(argv[3], "wb") : NULL;
	if (!out) {
		fprintf(stderr, "usage: bomb_profile KIND BYTES FILE\n");
		return 2;
	}
	uint8_t header[FM_FILE_HEADER_BYTES];
	fm_file_header_put(header);
	fwrite(header, 1, sizeof(header), out);
	ZSTD_CCtx *zstd = ZSTD_createCCtx();
	ZSTD_CCtx_setParameter(zstd, ZSTD_c_compressionLevel, 1);
	long want = strtol(argv[2], NULL, 10);
	while (ftell(out) < want) {
		if (b.seq < 2 || b.n_strings || b.n_stacks || b.n_allocs) // otherwise the same again will do
			b.raw.len = 0;
		if (!b.seq)
			put_threads(&b); // the one that events name
		while (b.raw.len < RAW_BYTES)
			put_one(&b);
		fm_chunk_seal(zstd, FM_CHUNK_RECORDS, b.seq++, b.raw.data, b.raw.len, &b.sealed);
		fwrite(b.sealed.data, 1, b.sealed.len, out);
	}
	return fclose(out) ? 1 : 0;
}
