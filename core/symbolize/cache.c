// SPDX-License-Identifier: Apache-2.0
#include "symbolize/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/kernel.h"
#include "base/owner.h"

// magic, version of the content, checksum of what follows
#define MAGIC "FATHSYM\n"
#define VERSION 5u
#define HEAD_BYTES 24

#define TEMPORARY_LETTERS 6 // behind a dot, until a file is whole

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

enum fm_err fm_cache_load(const struct fm_cache_key *key, struct fm_chains *ret)
{
	_cleanup_close_ int folder = key->name[0] ? fm_cache_folder_open(false, NULL) : -1;
	_cleanup_close_ int fd =
		folder >= 0 ? openat(folder, key->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
	struct stat st;
	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) || fm_distrust(&st, geteuid()) ||
	    st.st_size < HEAD_BYTES || (uint64_t)st.st_size > FM_CACHE_MAX_FILE_BYTES)
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

static size_t n_hex(const char *text)
{
	return strspn(text, "0123456789abcdef");
}

// Whether a file has a name that only we give: a key, or what becomes one when it is whole.
static bool is_our_name(const char *name)
{
	bool is_file = !strncmp(name, "file-", 5);
	size_t n = n_hex(name + 5 * is_file);
	const char *end = name + 5 * is_file + n;
	bool is_key = is_file ? n == 16 : n >= 8 && n <= 128 && n % 2 == 0;
	return is_key && (!*end || (*end == '.' && strlen(end) == 1 + TEMPORARY_LETTERS));
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

void fm_cache_trim(uint64_t max_bytes)
{
	int folder = fm_cache_folder_open(false, NULL);
	DIR *dir = folder >= 0 ? fdopendir(folder) : NULL;
	if (!dir) {
		if (folder >= 0)
			close(folder);
		return;
	}
	FM_VEC(struct old_file) files = { 0 };
	uint64_t total = 0;
	for (struct dirent *entry; (entry = readdir(dir));) {
		struct stat st;
		if (!is_our_name(entry->d_name) || fstatat(folder, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) ||
		    !S_ISREG(st.st_mode) || st.st_uid != geteuid())
			continue;
		struct old_file file = { "", (uint64_t)st.st_size, st.st_mtim.tv_sec };
		snprintf(file.name, sizeof(file.name), "%s", entry->d_name);
		fm_vec_push(&files, file);
		total += file.bytes;
	}
	if (total > max_bytes) {
		qsort(files.items, files.n, sizeof(*files.items), compare_age);
		for (size_t i = 0; i < files.n && total > max_bytes; i++)
			if (!unlinkat(folder, files.items[i].name, 0))
				total -= files.items[i].bytes;
	}
	fm_vec_deinit(&files);
	closedir(dir);
}

// A new file beside the key's, ret_name; -1 when there can be none.
static int create_temporary(int folder, const char *key, char *ret_name, size_t cap)
{
	for (int i = 0; i < 100; i++) {
		uint64_t random;
		if (fm_getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
			random = fm_now_ns() * 0x9e3779b97f4a7c15ull; // O_EXCL sees to the rest
		snprintf(ret_name, cap, "%s.%0*" PRIx64, key, TEMPORARY_LETTERS, random & 0xffffff);
		int fd =
			openat(folder, ret_name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, FM_PRIVATE_FILE);
		if (fd >= 0 || errno != EEXIST)
			return fd;
	}
	return -1;
}

static void save_bytes(int folder, const char *key, const struct fm_buf *head, const struct fm_buf *body)
{
	char temporary[FM_CACHE_KEY_BYTES + 1 + TEMPORARY_LETTERS];
	int fd = create_temporary(folder, key, temporary, sizeof(temporary));
	if (fd < 0)
		return;
	bool is_whole = write(fd, head->data, head->len) == (ssize_t)head->len &&
			write(fd, body->data, body->len) == (ssize_t)body->len;
	if (close(fd) || !is_whole || renameat(folder, temporary, folder, key))
		unlinkat(folder, temporary, 0);
	else
		fm_cache_trim(FM_CACHE_MAX_BYTES);
}

void fm_cache_save(const struct fm_cache_key *key, const struct fm_chains *c)
{
	_cleanup_close_ int folder = key->name[0] ? fm_cache_folder_open(true, NULL) : -1;
	if (folder < 0)
		return;
	struct fm_buf body = { 0 }, head = { 0 };
	fm_chains_pack(c, &body);
	fm_buf_bytes(&head, MAGIC, 8);
	fm_buf_u64(&head, VERSION);
	fm_buf_u64(&head, fm_checksum_xxh64(body.data, body.len, VERSION));
	if (body.len + HEAD_BYTES <= FM_CACHE_MAX_FILE_BYTES)
		save_bytes(folder, key->name, &head, &body);
	else
		unlinkat(folder, key->name, 0);
	fm_buf_deinit(&head);
	fm_buf_deinit(&body);
}
