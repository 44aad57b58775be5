// SPDX-License-Identifier: Apache-2.0
#include "render/shared/packed.h"

#include <stdint.h>
#include <stdlib.h>
#include <zlib.h>
#include <zstd.h>

#include "base/mem.h"

#define BUFFER_BYTES (1u << 16)

struct gzip {
	FILE *to;
	z_stream z;
	uint8_t out[BUFFER_BYTES];
};

static int deflate_some(struct gzip *g, int flush)
{
	do {
		g->z.next_out = g->out;
		g->z.avail_out = sizeof(g->out);
		if (deflate(&g->z, flush) == Z_STREAM_ERROR)
			return -1;
		size_t n = sizeof(g->out) - g->z.avail_out;
		if (fwrite(g->out, 1, n, g->to) != n)
			return -1;
	} while (!g->z.avail_out);
	return 0;
}

static ssize_t gzip_write(void *cookie, const char *p, size_t n)
{
	struct gzip *g = cookie;
	g->z.next_in = (uint8_t *)(uintptr_t)p; // zlib's own type lacks the const; it does not write there
	g->z.avail_in = (uInt)n;
	return deflate_some(g, Z_NO_FLUSH) ? 0 : (ssize_t)n; // 0 is what stdio takes for an error
}

static int gzip_close(void *cookie)
{
	struct gzip *g = cookie;
	g->z.avail_in = 0;
	int failed = deflate_some(g, Z_FINISH);
	deflateEnd(&g->z);
	free(g);
	return failed;
}

FILE *fm_packed_gzip(FILE *to, int level)
{
	struct gzip *g = fm_alloc(sizeof(*g));
	g->to = to;
	// 15 bits of window, and 16 more to say that a gzip header is wanted. No name and no time
	// in it: equal data, equal bytes.
	if (deflateInit2(&g->z, level, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY) != Z_OK) {
		free(g);
		return NULL;
	}
	FILE *f = fopencookie(g, "w", (cookie_io_functions_t){ .write = gzip_write, .close = gzip_close });
	if (f)
		setvbuf(f, NULL, _IOFBF, BUFFER_BYTES);
	return f;
}

struct base64 {
	FILE *to;
	uint8_t rest[3];
	unsigned n_rest;
};

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void put_group(FILE *to, const uint8_t b[static 3])
{
	uint32_t bits = (uint32_t)b[0] << 16 | (uint32_t)b[1] << 8 | b[2];
	for (int shift = 18; shift >= 0; shift -= 6)
		putc_unlocked(alphabet[bits >> shift & 63], to);
}

static ssize_t base64_write(void *cookie, const char *p, size_t n)
{
	struct base64 *b = cookie;
	for (size_t i = 0; i < n; i++) {
		b->rest[b->n_rest++] = (uint8_t)p[i];
		if (b->n_rest == 3) {
			put_group(b->to, b->rest);
			b->n_rest = 0;
		}
	}
	return ferror(b->to) ? 0 : (ssize_t)n;
}

static int base64_close(void *cookie)
{
	struct base64 *b = cookie;
	if (b->n_rest) {
		uint8_t last[3] = { b->rest[0], b->n_rest > 1 ? b->rest[1] : 0, 0 };
		putc_unlocked(alphabet[last[0] >> 2], b->to);
		putc_unlocked(alphabet[(last[0] & 3) << 4 | last[1] >> 4], b->to);
		putc_unlocked(b->n_rest > 1 ? alphabet[(last[1] & 15) << 2] : '=', b->to);
		putc_unlocked('=', b->to);
	}
	int failed = ferror(b->to) ? -1 : 0;
	free(b);
	return failed;
}

FILE *fm_packed_base64(FILE *to)
{
	struct base64 *b = fm_alloc(sizeof(*b));
	b->to = to;
	return fopencookie(b, "w", (cookie_io_functions_t){ .write = base64_write, .close = base64_close });
}

char *fm_packed_zstd(const char *bytes, size_t len, int level, size_t *ret_len)
{
	size_t room = ZSTD_compressBound(len);
	char *packed = malloc(room);
	size_t n = packed ? ZSTD_compress(packed, room, bytes, len, level) : 0;
	*ret_len = ZSTD_isError(n) ? 0 : n;
	return packed;
}
