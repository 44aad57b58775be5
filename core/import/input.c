// SPDX-License-Identifier: Apache-2.0
#include "import/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "base/cleanup.h"
#include "base/mem.h"

#define READ_BYTES ((size_t)256 << 10)
#define GZIP_ANY_WINDOW (15 + 16) // zlib.h: the largest window, gzip's header
// A few bytes unpack to as many as their writer likes. No profile shrinks to less than this.
#define MAX_RATIO 2000u
#define RATIO_FLOOR_BYTES ((uint64_t)256 << 20)
// What a few bytes of a file say may take a hundred times as much to be kept; no profile is made of
// those alone.
#define MEMORY_RATIO 16u
#define MEMORY_FLOOR_BYTES ((uint64_t)512 << 20)
#define BYTES_PER_LOOK ((uint64_t)1 << 20)

enum packing { PLAIN, GZIP, ZSTD };

struct fm_input {
	int fd;
	uint64_t file_size;
	enum packing packing;
	z_stream gzip;
	bool has_gzip, is_between_parts; // gzip files may be several, one after the other
	ZSTD_DCtx *zstd;
	size_t zstd_hint; // 0: a frame ended
	uint8_t *packed;  // what was read and not unpacked yet: [packed_pos, packed_len)
	size_t packed_pos, packed_len;
	uint64_t n_read;

	uint8_t *window; // [pos, len) is what lies ahead
	size_t pos, len, cap;
	uint64_t offset;  // of pos
	uint64_t look_at; // the offset where memory is looked at next
	uint64_t line_number;
	bool is_end;
	const char *error;
};

static size_t read_file(struct fm_input *s, uint8_t *to, size_t n)
{
	ssize_t got;
	do
		got = read(s->fd, to, n);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		s->error = "it cannot be read";
	s->n_read += got > 0 ? (uint64_t)got : 0;
	return got > 0 ? (size_t)got : 0;
}

static void refill_packed(struct fm_input *s)
{
	if (s->packed_pos < s->packed_len)
		return;
	s->packed_len = read_file(s, s->packed, READ_BYTES);
	s->packed_pos = 0;
}

static void unpack_gzip(struct fm_input *s)
{
	bool is_dry = s->packed_pos == s->packed_len;
	if (s->is_between_parts) {
		s->is_end = is_dry;
		if (is_dry || inflateReset(&s->gzip) != Z_OK)
			return;
		s->is_between_parts = false;
	}
	s->gzip.next_in = s->packed + s->packed_pos;
	s->gzip.avail_in = (uInt)(s->packed_len - s->packed_pos);
	s->gzip.next_out = s->window + s->len;
	s->gzip.avail_out = (uInt)FM_MIN(s->cap - s->len, READ_BYTES);
	uInt room = s->gzip.avail_out;
	int status = inflate(&s->gzip, Z_NO_FLUSH);
	s->packed_pos = s->packed_len - s->gzip.avail_in;
	s->len += room - s->gzip.avail_out;
	if (status == Z_STREAM_END)
		s->is_between_parts = true;
	else if (status != Z_OK && status != Z_BUF_ERROR)
		s->error = "its gzip data is damaged";
	else if (is_dry && room == s->gzip.avail_out)
		s->error = "its gzip data is cut off";
}

static void unpack_zstd(struct fm_input *s)
{
	bool is_dry = s->packed_pos == s->packed_len;
	if (is_dry && !s->zstd_hint) {
		s->is_end = true;
		return;
	}
	ZSTD_inBuffer in = { s->packed, s->packed_len, s->packed_pos };
	ZSTD_outBuffer out = { s->window + s->len, FM_MIN(s->cap - s->len, READ_BYTES), 0 };
	s->zstd_hint = ZSTD_decompressStream(s->zstd, &out, &in);
	s->packed_pos = in.pos;
	s->len += out.pos;
	if (ZSTD_isError(s->zstd_hint))
		s->error = "its zstd data is damaged";
	else if (is_dry && !out.pos && s->zstd_hint)
		s->error = "its zstd data is cut off";
}

bool fm_input_is_bomb(uint64_t unpacked, uint64_t packed)
{
	return unpacked > RATIO_FLOOR_BYTES && unpacked / MAX_RATIO > packed;
}

// Of this process, and in no file.
static uint64_t memory_bytes(void)
{
	char text[128] = "";
	unsigned long long size, resident = 0, shared = 0;
	_cleanup_close_ int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;
	if (n <= 0 || sscanf(text, "%llu %llu %llu", &size, &resident, &shared) != 3)
		return 0;
	return (resident - FM_MIN(resident, shared)) * (uint64_t)sysconf(_SC_PAGESIZE);
}

void fm_input_check_memory(struct fm_input *s)
{
	s->look_at = s->offset + BYTES_PER_LOOK;
	if (s->error || memory_bytes() <= MEMORY_FLOOR_BYTES + s->file_size * MEMORY_RATIO)
		return;
	s->error = "what it holds takes more memory than any profile of its size";
	s->is_end = true;
	s->pos = s->len = 0; // what lies in the window stays for who has it
}

static void fill_once(struct fm_input *s)
{
	if (s->packing == PLAIN) {
		size_t got = read_file(s, s->window + s->len, s->cap - s->len);
		s->len += got;
		s->is_end = !got;
	} else {
		refill_packed(s);
		if (s->packing == GZIP)
			unpack_gzip(s);
		else
			unpack_zstd(s);
		if (fm_input_is_bomb(s->offset + (s->len - s->pos), s->n_read))
			s->error = "it unpacks to more than any profile holds";
	}
	s->is_end = s->is_end || s->error;
	if (!s->is_end && s->offset >= s->look_at)
		fm_input_check_memory(s);
}

// Makes `want` bytes lie ahead, if the file has them. The window grows where a record needs it.
static void fill(struct fm_input *s, size_t want)
{
	if (s->pos + want + READ_BYTES > s->cap) {
		memmove(s->window, s->window + s->pos, s->len - s->pos);
		s->len -= s->pos;
		s->pos = 0;
		if (want + READ_BYTES > s->cap) {
			s->cap = FM_MAX(want + READ_BYTES, s->cap * 2);
			s->window = fm_realloc_array(s->window, s->cap, 1);
		}
	}
	while (s->len - s->pos < want && !s->is_end)
		fill_once(s);
}

const uint8_t *fm_input_peek(struct fm_input *s, size_t want, size_t *ret_n)
{
	if (want > FM_INPUT_MAX_PEEK) {
		s->error = s->error ? s->error : "a record is longer than any profile's";
		s->is_end = true;
		s->pos = s->len = 0;
	} else if (s->len - s->pos < want) {
		fill(s, want);
	}
	*ret_n = s->len - s->pos;
	return s->window + s->pos;
}

void fm_input_skip(struct fm_input *s, uint64_t n)
{
	while (n) {
		if (s->pos == s->len)
			fill(s, 1);
		size_t step = (size_t)FM_MIN(n, (uint64_t)(s->len - s->pos));
		if (!step)
			return;
		s->pos += step;
		s->offset += step;
		n -= step;
	}
}

bool fm_input_line(struct fm_input *s, struct fm_str *ret)
{
	size_t n = s->len - s->pos, searched = 0;
	const uint8_t *p = s->window + s->pos, *end = NULL;
	while (!end) {
		end = n > searched ? memchr(p + searched, '\n', n - searched) : NULL;
		if (end || n >= FM_INPUT_MAX_LINE)
			break;
		searched = n;
		p = fm_input_peek(s, n + 1, &n);
		if (n == searched) {
			end = p + n;
			break;
		}
	}
	if (!end) {
		s->error = "a line is longer than any stack's";
		s->is_end = true;
		return false;
	}
	size_t len = (size_t)(end - p), step = FM_MIN(len + 1, n);
	if (!n)
		return false;
	s->pos += step;
	s->offset += step;
	s->line_number++;
	if (len && p[len - 1] == '\r')
		len--;
	*ret = (struct fm_str){ (const char *)p, (uint32_t)len };
	return true;
}

static void begin_unpacking(struct fm_input *s)
{
	if (s->packing == GZIP && !s->has_gzip)
		s->has_gzip = inflateInit2(&s->gzip, GZIP_ANY_WINDOW) == Z_OK;
	else if (s->packing == GZIP)
		inflateReset(&s->gzip);
	if (s->packing == GZIP && !s->has_gzip)
		s->error = "there is not enough memory to unpack it";
	if (s->packing == ZSTD && !s->zstd)
		s->zstd = ZSTD_createDCtx();
	else if (s->packing == ZSTD)
		ZSTD_DCtx_reset(s->zstd, ZSTD_reset_session_only);
	s->is_between_parts = false;
	s->zstd_hint = 1;
}

void fm_input_rewind(struct fm_input *s)
{
	if (lseek(s->fd, 0, SEEK_SET) != 0)
		s->error = "it cannot be read twice";
	else
		s->error = NULL;
	s->is_end = s->error;
	s->packed_pos = s->packed_len = s->pos = s->len = 0;
	s->n_read = s->offset = s->line_number = 0;
	s->look_at = BYTES_PER_LOOK;
	begin_unpacking(s);
}

enum fm_err fm_input_open(const char *path, struct fm_input **ret, struct fm_diag *diag)
{
	struct stat st;
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st))
		return fm_diag_set(diag, FM_E_NOT_FOUND, "cannot open %s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return fm_diag_set(diag, FM_E_UNSUPPORTED, "%s is not a regular file; write the profile to one", path);
	uint8_t head[4] = { 0 };
	ssize_t n = pread(fd, head, sizeof(head), 0);
	struct fm_input *s = fm_alloc(sizeof(*s));
	s->fd = fd;
	fd = -1; // the input's now
	s->file_size = (uint64_t)st.st_size;
	s->packing = n >= 2 && head[0] == 0x1f && head[1] == 0x8b                              ? GZIP
		     : n == 4 && !memcmp(head, (const uint8_t[]){ 0x28, 0xb5, 0x2f, 0xfd }, 4) ? ZSTD
											       : PLAIN;
	if (s->packing != PLAIN)
		s->packed = fm_alloc(READ_BYTES);
	s->cap = 2 * READ_BYTES;
	s->look_at = BYTES_PER_LOOK;
	s->window = fm_alloc(s->cap);
	begin_unpacking(s);
	*ret = s;
	return FM_OK;
}

void fm_input_close(struct fm_input *s)
{
	if (!s)
		return;
	if (s->has_gzip)
		inflateEnd(&s->gzip);
	ZSTD_freeDCtx(s->zstd);
	close(s->fd);
	free(s->packed);
	free(s->window);
	free(s);
}

uint64_t fm_input_offset(const struct fm_input *s)
{
	return s->offset;
}

uint64_t fm_input_line_number(const struct fm_input *s)
{
	return s->line_number;
}

bool fm_input_is_packed(const struct fm_input *s)
{
	return s->packing != PLAIN;
}

uint64_t fm_input_file_size(const struct fm_input *s)
{
	return s->file_size;
}

int fm_input_fd(const struct fm_input *s)
{
	return s->fd;
}

const char *fm_input_error(const struct fm_input *s)
{
	return s->error;
}
