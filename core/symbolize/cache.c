#include "symbolize/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/cleanup.h"

// magic, version of the content, checksum of what follows
#define MAGIC "FATHSYM\n"
#define VERSION 3u
#define HEAD_BYTES 24

bool fm_cache_folder(char *ret, size_t cap)
{
	const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	int n = -1;
	if (base && base[0] == '/')
		n = snprintf(ret, cap, "%s/fathom/symbols", base);
	else if (home && home[0] == '/')
		n = snprintf(ret, cap, "%s/.cache/fathom/symbols", home);
	return n > 0 && (size_t)n < cap;
}

struct fm_cache_key fm_cache_key_of(const char *path, struct fm_str build_id)
{
	struct fm_cache_key key = { "" };
	struct stat st;
	if (build_id.len >= 4 && build_id.len <= 64) {
		for (uint32_t i = 0; i < build_id.len; i++)
			snprintf(key.name + 2 * i, sizeof(key.name) - 2 * i, "%02x", (uint8_t)build_id.p[i]);
	} else if (!stat(path, &st)) {
		uint64_t facts[] = { fm_hash_bytes(path, strlen(path)), (uint64_t)st.st_size,
				     (uint64_t)st.st_mtim.tv_sec, (uint64_t)st.st_mtim.tv_nsec, (uint64_t)st.st_ino };
		snprintf(key.name, sizeof(key.name), "file-%016" PRIx64, fm_checksum_xxh64(facts, sizeof(facts), 0));
	}
	return key;
}

static bool path_of(const struct fm_cache_key *key, char *ret, size_t cap)
{
	char folder[4000];
	return key->name[0] && fm_cache_folder(folder, sizeof(folder)) &&
	       snprintf(ret, cap, "%s/%s", folder, key->name) < (int)cap;
}

enum fm_err fm_cache_load(const struct fm_cache_key *key, struct fm_chains *ret)
{
	char path[4200];
	if (!path_of(key, path, sizeof(path)))
		return FM_E_NOT_FOUND;
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size < HEAD_BYTES ||
	    (uint64_t)st.st_size > FM_CACHE_MAX_FILE_BYTES)
		return FM_E_NOT_FOUND;
	_cleanup_free_ uint8_t *bytes = fm_alloc((size_t)st.st_size);
	if (pread(fd, bytes, (size_t)st.st_size, 0) != st.st_size)
		return FM_E_CORRUPT;
	struct fm_cursor c = fm_cursor_over(bytes, (size_t)st.st_size);
	const uint8_t *magic = fm_cursor_bytes(&c, 8);
	uint64_t version = fm_cursor_u64(&c), checksum = fm_cursor_u64(&c);
	if (memcmp(magic, MAGIC, 8) || version != VERSION ||
	    checksum != fm_checksum_xxh64(c.pos, fm_cursor_left(&c), VERSION))
		return FM_E_CORRUPT;
	enum fm_err err = fm_chains_unpack(ret, &c);
	if (!err)
		futimens(fd, NULL); // in use: not the next to go
	return err;
}

static bool make_folder(char *path)
{
	for (char *p = path + 1; *p; p++) {
		if (*p != '/')
			continue;
		*p = 0;
		mkdir(path, 0700);
		*p = '/';
	}
	return !mkdir(path, 0700) || errno == EEXIST;
}

struct old_file {
	char name[256];
	uint64_t bytes;
	int64_t used_s;
};

static int compare_age(const void *pa, const void *pb)
{
	const struct old_file *a = pa, *b = pb;
	return (a->used_s > b->used_s) - (a->used_s < b->used_s);
}

void fm_cache_trim(const char *folder, uint64_t max_bytes)
{
	DIR *dir = opendir(folder);
	if (!dir)
		return;
	FM_VEC(struct old_file) files = { 0 };
	uint64_t total = 0;
	for (struct dirent *entry; (entry = readdir(dir));) {
		struct stat st;
		if (fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
			continue;
		struct old_file file = { "", (uint64_t)st.st_size, st.st_mtim.tv_sec };
		snprintf(file.name, sizeof(file.name), "%s", entry->d_name);
		fm_vec_push(&files, file);
		total += file.bytes;
	}
	if (total > max_bytes) {
		qsort(files.items, files.n, sizeof(*files.items), compare_age);
		for (size_t i = 0; i < files.n && total > max_bytes; i++)
			if (!unlinkat(dirfd(dir), files.items[i].name, 0))
				total -= files.items[i].bytes;
	}
	fm_vec_deinit(&files);
	closedir(dir);
}

void fm_cache_save(const struct fm_cache_key *key, const struct fm_chains *c)
{
	char folder[4000], path[4200], temporary[4300];
	if (!path_of(key, path, sizeof(path)) || !fm_cache_folder(folder, sizeof(folder)) || !make_folder(folder))
		return;
	snprintf(temporary, sizeof(temporary), "%s.XXXXXX", path);
	struct fm_buf body = { 0 }, head = { 0 };
	fm_chains_pack(c, &body);
	fm_buf_bytes(&head, MAGIC, 8);
	fm_buf_u64(&head, VERSION);
	fm_buf_u64(&head, fm_checksum_xxh64(body.data, body.len, VERSION));
	int fd = body.len + HEAD_BYTES <= FM_CACHE_MAX_FILE_BYTES ? mkostemp(temporary, O_CLOEXEC) : -1;
	if (fd >= 0) {
		bool is_whole = write(fd, head.data, head.len) == (ssize_t)head.len &&
				write(fd, body.data, body.len) == (ssize_t)body.len;
		if (close(fd) || !is_whole || rename(temporary, path))
			unlink(temporary);
		else
			fm_cache_trim(folder, FM_CACHE_MAX_BYTES);
	} else if (body.len + HEAD_BYTES > FM_CACHE_MAX_FILE_BYTES) {
		unlink(path);
	}
	fm_buf_deinit(&head);
	fm_buf_deinit(&body);
}
