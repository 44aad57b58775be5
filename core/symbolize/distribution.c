// SPDX-License-Identifier: Apache-2.0
#include "symbolize/parts.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/mem.h"

#define INFO ".dist-info"
#define MAX_RECORD_BYTES (16u << 20) // a list of files: 100 bytes for each
#define MAX_READ_BYTES (64u << 20)   // of all lists that a report reads

bool fm_distribution_split(struct fm_str path, struct fm_str *ret_folder, struct fm_str *ret_below)
{
	static const char *const words[] = { "/site-packages/", "/dist-packages/" };
	for (size_t i = 0; i < FM_ARRAY_LEN(words); i++) {
		const char *at = memmem(path.p, path.len, words[i], strlen(words[i]));
		if (!at)
			continue;
		uint32_t n = (uint32_t)(at + strlen(words[i]) - path.p);
		*ret_folder = (struct fm_str){ path.p, n };
		*ret_below = (struct fm_str){ path.p + n, path.len - n };
		return true;
	}
	return false;
}

// A RECORD has a line for each file: "sklearn/tree/_tree.so,sha256=...,483728".
static bool has_line(const char *text, size_t len, struct fm_str below)
{
	for (const char *at = text, *end = text + len; (at = memmem(at, (size_t)(end - at), below.p, below.len)); at++)
		if ((at == text || at[-1] == '\n') && at + below.len < end && at[below.len] == ',')
			return true;
	return false;
}

static bool is_listed(int folder_fd, const char *info, struct fm_str below, size_t *left_bytes)
{
	char name[300];
	struct stat st;
	bool is_there = false;
	snprintf(name, sizeof(name), "%s/RECORD", info);
	int fd = openat(folder_fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return false;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size > 0 && (uint64_t)st.st_size <= MAX_RECORD_BYTES &&
	    (uint64_t)st.st_size <= *left_bytes) {
		char *text = fm_alloc((size_t)st.st_size);
		ssize_t n = read(fd, text, (size_t)st.st_size);
		is_there = n > 0 && has_line(text, (size_t)n, below);
		*left_bytes -= (size_t)st.st_size;
		free(text);
	}
	close(fd);
	return is_there;
}

// "scikit_learn-1.9.1.dist-info": what pip takes, which holds - and _ for the same.
static bool take_name(const char *info, char *ret, size_t cap)
{
	size_t n = strcspn(info, "-"), len = strlen(info);
	if (!n || n + 1 > cap || len < n + strlen(INFO) || strcmp(info + len - strlen(INFO), INFO))
		return false;
	for (size_t i = 0; i < n; i++) {
		if (!isalnum((unsigned char)info[i]) && info[i] != '_' && info[i] != '.')
			return false;
		ret[i] = info[i] == '_' ? '-' : info[i];
	}
	ret[n] = 0;
	return true;
}

bool fm_distribution_of(struct fm_str path, char *ret, size_t cap)
{
	static size_t left_bytes = MAX_READ_BYTES;
	static char last[256]; // most often the next library is of the same one
	struct fm_str folder, below;
	char whole[4096];
	if (!fm_distribution_split(path, &folder, &below) || !below.len || folder.len >= sizeof(whole))
		return false;
	memcpy(whole, folder.p, folder.len);
	whole[folder.len] = 0;
	DIR *dir = opendir(whole);
	if (!dir)
		return false;
	bool is_found = last[0] && is_listed(dirfd(dir), last, below, &left_bytes) && take_name(last, ret, cap);
	for (struct dirent *entry; !is_found && (entry = readdir(dir));) {
		if (strlen(entry->d_name) >= sizeof(last) || !take_name(entry->d_name, ret, cap) ||
		    !is_listed(dirfd(dir), entry->d_name, below, &left_bytes))
			continue;
		is_found = true;
		snprintf(last, sizeof(last), "%s", entry->d_name);
	}
	closedir(dir);
	return is_found;
}
