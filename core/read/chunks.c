// SPDX-License-Identifier: Apache-2.0
#include "read/chunks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "read/tables.h"

// One read brings several chunks; a chunk larger than this makes the window grow.
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
#define WINDOW_BYTES ((size_t)4 << 10)
#else
#define WINDOW_BYTES ((size_t)1 << 20)
#endif

// Makes `want` bytes available from window[pos] on; false when the file has fewer.
static bool fill(struct fm_chunks *s, size_t want)
{
	if (s->len - s->pos >= want)
		return true;
	if (s->at_eof && !s->is_followed)
		return false;
	if (s->pos) {
		memmove(s->window, s->window + s->pos, s->len - s->pos);
		s->len -= s->pos;
		s->pos = 0;
	}
	if (s->cap < want || !s->cap) {
		s->cap = FM_MAX(want, WINDOW_BYTES);
		s->window = fm_realloc_array(s->window, s->cap, 1);
	}
	while (s->len < want) {
		ssize_t n = read(s->fd, s->window + s->len, s->cap - s->len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			s->read_errno = n < 0 ? errno : 0;
			s->at_eof = true;
			return false;
		}
		s->len += (size_t)n;
	}
	return true;
}

static void consume(struct fm_chunks *s, size_t n)
{
	s->pos += n;
	s->offset += n;
}

static size_t available(const struct fm_chunks *s)
{
	return s->len - s->pos;
}

enum fm_err fm_chunks_open(struct fm_chunks *ret, const char *path, struct fm_diag *diag)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return fm_diag_set(diag, errno == ENOENT ? FM_E_NOT_FOUND : FM_E_IO, "cannot open %s: %s", path,
				   strerror(errno));
	struct stat st = { 0 };
	if (fstat(fd, &st) < 0)
		return fm_diag_set(diag, FM_E_IO, "cannot open %s: %s", path, strerror(errno));
	if (S_ISDIR(st.st_mode))
		return fm_diag_set(diag, FM_E_BAD_MAGIC, "%s is a directory, not a Fathom profile", path);
	struct fm_chunks s = { .fd = fd, .size = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0 };
	uint16_t major = 0, minor = 0;
	enum fm_err err;
	if (fill(&s, FM_FILE_HEADER_BYTES)) {
		err = fm_file_header_get(s.window, &major, &minor);
	} else if (s.read_errno) {
		err = fm_diag_set(diag, FM_E_IO, "cannot read %s: %s", path, strerror(s.read_errno));
	} else if (!s.len) {
		err = fm_diag_set(diag, FM_E_BAD_MAGIC, "%s is empty, not a Fathom profile", path);
	} else {
		bool is_start = memcmp(s.window, FM_FILE_MAGIC, FM_MIN(s.len, (size_t)FM_FILE_MAGIC_BYTES)) == 0;
		err = !is_start ? FM_E_BAD_MAGIC
				: fm_diag_set(diag, FM_E_TRUNCATED, "%s ends after %zu bytes, inside the file header",
					      path, s.len);
	}
	if (err) {
		if (err == FM_E_BAD_MAGIC && s.len)
			fm_diag_set(diag, err, "%s is not a Fathom profile", path);
		if (err == FM_E_BAD_VERSION)
			fm_diag_set(diag, err, "%s has format %u.%u; this Fathom reads format %u: use a newer Fathom",
				    path, major, minor, FM_FILE_MAJOR);
		free(s.window);
		return err;
	}
	consume(&s, FM_FILE_HEADER_BYTES);
	s.zstd = ZSTD_createDCtx();
	*ret = s;
	fd = -1; // the stream's now
	return FM_OK;
}

void fm_chunks_close(struct fm_chunks *s)
{
	close(s->fd);
	free(s->window);
	free(s->raw);
	ZSTD_freeDCtx(s->zstd);
}

static enum fm_err cut_off(struct fm_chunks *s)
{
	if (s->is_followed)
		return FM_E_END; // the rest of the chunk comes with the next look
	// A header that was overwritten, near the end of the file: nothing after it tells by its
	// number that a chunk is lost.
	s->n_damaged += s->in_garbage;
	s->in_garbage = false;
	s->n_cut_bytes = available(s);
	consume(s, available(s));
	return FM_E_END;
}

// Steps to the next place that may be a chunk header. Every byte is passed over once, so this is
// linear whatever the bytes.
static void skip_garbage(struct fm_chunks *s)
{
	s->in_garbage = true;
	consume(s, 1);
	const uint8_t *from = s->window + s->pos;
	const uint8_t *mark = memmem(from, available(s), FM_CHUNK_MARK, FM_CHUNK_MARK_BYTES);
	if (mark) {
		consume(s, (size_t)(mark - from));
	} else if (available(s) > FM_CHUNK_HEADER_BYTES) {
		consume(s, available(s) - FM_CHUNK_HEADER_BYTES); // a mark may lie across the window's edge
	}
}

static void raw_reserve(struct fm_chunks *s, size_t want)
{
	if (s->raw_cap < want) {
		free(s->raw); // no realloc: the old content is not needed
		s->raw = fm_realloc_array(NULL, want, 1);
		s->raw_cap = want;
	}
}

enum fm_err fm_chunks_next(struct fm_chunks *s, struct fm_chunk *ret)
{
	if (s->is_too_large)
		return FM_E_END;
	if (s->has_end) {
		while (fill(s, 1)) {
			s->n_cut_bytes += available(s);
			consume(s, available(s));
		}
		return FM_E_END;
	}
	for (;;) {
		struct fm_chunk_header h;
		if (!fill(s, FM_CHUNK_HEADER_BYTES))
			return cut_off(s);
		if (!fm_chunk_header_get(s->window + s->pos, &h)) {
			skip_garbage(s);
			continue;
		}
		if (!fill(s, FM_CHUNK_HEADER_BYTES + (size_t)h.stored_len))
			return cut_off(s);
		const uint8_t *stored = s->window + s->pos + FM_CHUNK_HEADER_BYTES;
		consume(s, FM_CHUNK_HEADER_BYTES +
				   (size_t)h.stored_len); // moves the position only: the bytes stay until fill()
		bool is_late = h.seq < s->next_seq;       // seen before, or out of order
		if (!is_late) {
			s->n_damaged += FM_MAX(h.seq - s->next_seq, (uint64_t)s->in_garbage);
			s->next_seq = (uint64_t)h.seq + 1;
		}
		s->in_garbage = false;
		s->unpacked_bytes += h.raw_len;
		if (s->unpacked_bytes > FM_READ_FLOOR_BYTES + s->offset * FM_READ_UNPACKED_RATIO) {
			s->is_too_large = true;
			return FM_E_END;
		}
		// The header has a check of its own, so its length could be trusted even if the
		// payload is damaged.
		raw_reserve(s, h.raw_len);
		if (is_late || fm_chunk_unpack(s->zstd, &h, stored, s->raw)) {
			s->n_damaged++;
			continue;
		}
		s->has_end = h.type == FM_CHUNK_END;
		*ret = (struct fm_chunk){ h.type, s->raw, h.raw_len };
		return FM_OK;
	}
}
