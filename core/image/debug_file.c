// SPDX-License-Identifier: Apache-2.0
#include "image/debug_file.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/cleanup.h"
#include "base/cursor.h"
#include "image/elf_file.h"

#define SYSTEM_FOLDER "/usr/lib/debug"

// Calls each(ctx, folder) for every debug folder until it says true.
static bool each_folder(bool (*each)(void *ctx, struct fm_str folder), void *ctx)
{
	const char *path = getenv("FATHOM_DEBUG_PATH");
	while (path && *path) {
		size_t len = strcspn(path, ":");
		if (len && each(ctx, (struct fm_str){ path, (uint32_t)len }))
			return true;
		path += len + (path[len] == ':');
	}
	return each(ctx, FM_STR_LIT(SYSTEM_FOLDER));
}

struct search {
	const char *image_path;
	struct fm_str image_dir;
	struct fm_str build_id;
	const char *link;
	// Called with each candidate; true ends the search.
	bool (*try)(struct search *s, const char *path, enum fm_debug_origin origin);

	uint32_t crc;
	struct fm_elf *found;
	struct fm_debug_place *place;
};

static bool try_build_id(void *ctx, struct fm_str folder)
{
	struct search *s = ctx;
	char path[4096];
	int n = snprintf(path, sizeof(path), "%.*s/.build-id/%02x/", (int)folder.len, folder.p,
			 (uint8_t)s->build_id.p[0]);
	for (uint32_t i = 1; i < s->build_id.len && n > 0 && n < (int)sizeof(path) - 16; i++)
		n += snprintf(path + n, sizeof(path) - (size_t)n, "%02x", (uint8_t)s->build_id.p[i]);
	if (n <= 0 || n >= (int)sizeof(path) - 16)
		return false;
	strcpy(path + n, ".debug");
	return s->try(s, path, FM_DEBUG_BUILD_ID);
}

static bool try_link_in(struct search *s, struct fm_str folder, struct fm_str inner)
{
	char path[4096];
	int n = snprintf(path, sizeof(path), "%.*s%.*s/%s", (int)folder.len, folder.p, (int)inner.len, inner.p,
			 s->link);
	// A link to the image's own name in its own folder is the image.
	return n > 0 && n < (int)sizeof(path) && strcmp(path, s->image_path) && s->try(s, path, FM_DEBUG_LINK);
}

static bool try_link_under(void *ctx, struct fm_str folder)
{
	struct search *s = ctx;
	return try_link_in(s, folder, s->image_dir);
}

static bool search_all(struct search *s)
{
	if (s->build_id.len >= 2 && s->build_id.len <= FM_BUILD_ID_MAX && each_folder(try_build_id, s))
		return true;
	if (!s->link[0] || strchr(s->link, '/')) // a path as a link would lead anywhere
		return false;
	const char *slash = strrchr(s->image_path, '/');
	s->image_dir = (struct fm_str){ s->image_path, slash ? (uint32_t)(slash - s->image_path) : 0 };
	return try_link_in(s, s->image_dir, FM_STR_LIT("")) || try_link_in(s, s->image_dir, FM_STR_LIT("/.debug")) ||
	       each_folder(try_link_under, s);
}

static bool crc_is(const struct fm_elf *e, uint32_t want)
{
	uint8_t *bytes = malloc(1 << 16);
	uint32_t crc = 0;
	ssize_t n = -1;
	for (off_t at = 0; bytes && (n = pread(e->fd, bytes, 1 << 16, at)) > 0; at += n)
		crc = fm_checksum_crc32(bytes, (size_t)n, crc);
	free(bytes);
	return n == 0 && crc == want;
}

static bool open_candidate(struct search *s, const char *path, enum fm_debug_origin origin)
{
	struct fm_elf e;
	if (access(path, R_OK) || fm_elf_open(path, &e, NULL))
		return false;
	bool is_right = s->build_id.len && e.build_id_len
				? fm_str_eq(s->build_id, (struct fm_str){ (char *)e.build_id, e.build_id_len })
				: origin == FM_DEBUG_LINK && crc_is(&e, s->crc);
	if (!is_right) {
		fm_elf_close(&e);
		return false;
	}
	*s->found = e;
	s->place->origin = origin;
	snprintf(s->place->path, sizeof(s->place->path), "%s", path);
	return true;
}

// .gnu_debuglink: a file name, padded with NULs to four bytes, then the CRC-32 of that file.
static void read_link(const struct fm_elf *main, struct fm_debug_place *place, uint32_t *ret_crc)
{
	Elf_Data *data = main ? fm_elf_section(main, ".gnu_debuglink", NULL) : NULL;
	size_t len = data ? strnlen(data->d_buf, data->d_size) : 0;
	if (!len || len >= sizeof(place->link) || data->d_size < ((len + 4) & ~(size_t)3) + 4)
		return;
	struct fm_cursor c = fm_cursor_over((uint8_t *)data->d_buf + ((len + 4) & ~(size_t)3), 4);
	*ret_crc = fm_cursor_u32(&c);
	memcpy(place->link, data->d_buf, len + 1);
}

enum fm_err fm_debug_file_find(const char *image_path, const struct fm_elf *main, struct fm_str build_id,
			       bool may_ask_server, struct fm_elf *ret, struct fm_debug_place *place)
{
	*place = (struct fm_debug_place){ 0 };
	struct search s = { .image_path = image_path, .build_id = build_id, .found = ret, .place = place };
	s.try = open_candidate;
	s.link = place->link;
	read_link(main, place, &s.crc);
	if (search_all(&s))
		return FM_OK;
	if (may_ask_server && build_id.len) {
		enum fm_err err = fm_debuginfod_find(build_id, place->path, sizeof(place->path));
		if (!err && open_candidate(&s, place->path, FM_DEBUG_SERVER))
			return FM_OK;
		place->is_server_silent = err == FM_E_IO;
	}
	place->path[0] = 0;
	return FM_E_NOT_FOUND;
}

static bool exists(struct search *s, const char *path, enum fm_debug_origin origin)
{
	return access(path, R_OK) == 0;
}

bool fm_debug_file_may_exist(const char *image_path, struct fm_str build_id, const char *link)
{
	struct search s = { .image_path = image_path, .build_id = build_id, .link = link, .try = exists };
	return search_all(&s);
}

// liblzma is loaded anyhow where libdw was built with it; without it these images have their
// dynamic symbols only.
typedef int (*lzma_decode_fn)(uint64_t *memlimit, uint32_t flags, const void *allocator, const uint8_t *in,
			      size_t *in_pos, size_t in_size, uint8_t *out, size_t *out_pos, size_t out_size);
#define LZMA_OK 0
#define LZMA_BUF_ERROR 10
#define MAX_MINI_BYTES ((size_t)256 << 20) // the largest known are below 20 MB

enum fm_err fm_debug_file_unpack_mini(const struct fm_elf *main, struct fm_elf *ret)
{
	Elf_Data *packed = fm_elf_section(main, ".gnu_debugdata", NULL);
	if (!packed)
		return FM_E_NOT_FOUND;
	void *library = dlopen("liblzma.so.5", RTLD_NOW | RTLD_LOCAL);
	lzma_decode_fn decode = library ? (lzma_decode_fn)dlsym(library, "lzma_stream_buffer_decode") : NULL;
	if (!decode)
		return FM_E_UNSUPPORTED;
	for (size_t cap = packed->d_size * 8 + 4096; cap <= MAX_MINI_BYTES; cap *= 4) {
		uint64_t memlimit = MAX_MINI_BYTES;
		size_t in_pos = 0, len = 0;
		uint8_t *out = malloc(cap);
		int err = out ? decode(&memlimit, 0, NULL, packed->d_buf, &in_pos, packed->d_size, out, &len, cap) : -1;
		if (err == LZMA_OK)
			return fm_elf_open_memory(out, len, false, ret);
		free(out);
		if (err != LZMA_BUF_ERROR)
			break;
	}
	return FM_E_CORRUPT;
}
