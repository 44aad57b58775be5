// SPDX-License-Identifier: Apache-2.0
// A whole ELF file (victim.c, in one of several builds) with some bytes changed, for targets that
// read such files. The input says how: a byte that chooses the file, then up to MAX_EDITS times
// four bytes: a place (two), how it is changed, a value.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"

#define MAX_EDITS 24

enum edit {
	EDIT_BYTE = 0,
	EDIT_WORD = 1, // four bytes: the value with its sign, so that -1 and small numbers are near
	EDIT_LONG = 2, // eight
	EDIT_BIT = 3,
	EDIT_MASK = 3,
	EDIT_IN_SECTION_TABLE = 4, // the place counts from there, where lies do most harm
	EDIT_IN_HEAD = 8,          // in the file's and the segments' headers
	EDIT_CUT = 0xff,           // the file ends at the place
};

struct victim {
	uint8_t *bytes;
	size_t len, section_table;
	int fd; // as `bytes`, but for what damaged_elf() changed last
};

static void open_victim(struct victim *v, const char *path)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	FUZZ_CHECK(fd >= 0 && !fstat(fd, &st));
	v->len = (size_t)st.st_size;
	v->bytes = malloc(v->len);
	FUZZ_CHECK(read(fd, v->bytes, v->len) == (ssize_t)v->len);
	close(fd);
	uint64_t section_table;
	memcpy(&section_table, v->bytes + 40, sizeof(section_table));
	v->section_table = (size_t)section_table % v->len;
	v->fd = memfd_create("victim", MFD_CLOEXEC);
	FUZZ_CHECK(v->fd >= 0 && write(v->fd, v->bytes, v->len) == (ssize_t)v->len);
}

static void put(const struct victim *v, size_t at, const void *bytes, size_t n)
{
	n = at + n > v->len ? v->len - at : n;
	FUZZ_CHECK(pwrite(v->fd, bytes, n, (off_t)at) == (ssize_t)n);
}

static void change(const struct victim *v, const uint8_t *edit)
{
	size_t at = (size_t)edit[0] | (size_t)edit[1] << 8;
	uint8_t how = edit[2], value = edit[3];
	int64_t wide = (int8_t)value;
	if (how == EDIT_CUT) {
		FUZZ_CHECK(ftruncate(v->fd, (off_t)(at % v->len)) == 0);
		return;
	}
	if (how & EDIT_IN_SECTION_TABLE)
		at = v->section_table + at % (v->len - v->section_table);
	else
		at %= how & EDIT_IN_HEAD ? 1024 : v->len;
	if (at < 5)
		return; // the magic stays, or nothing is tested
	if ((how & EDIT_MASK) == EDIT_BIT)
		value = v->bytes[at] ^ (uint8_t)(1 << value % 8);
	if ((how & EDIT_MASK) == EDIT_BYTE || (how & EDIT_MASK) == EDIT_BIT)
		put(v, at, &value, 1);
	else
		put(v, at, &wide, (how & EDIT_MASK) == EDIT_WORD ? 4 : 8);
}

// The same few descriptors again and again: what was changed for the input before is put right
// first. The whole file is small.
static int damaged_elf(const uint8_t *data, size_t size)
{
	static const char *const paths[] = { FUZZ_VICTIMS };
	static struct victim victims[sizeof(paths) / sizeof(*paths)];
	size_t which = size ? data[0] % (sizeof(paths) / sizeof(*paths)) : 0;
	struct victim *v = &victims[which];
	if (!v->bytes)
		open_victim(v, paths[which]);
	FUZZ_CHECK(pwrite(v->fd, v->bytes, v->len, 0) == (ssize_t)v->len);
	for (size_t i = 1; i + 4 <= size && i < 1 + 4 * MAX_EDITS; i += 4)
		change(v, data + i);
	return v->fd;
}

// Addresses to ask for: all over the functions, which lie in the first page (-z noseparate-code).
#define N_ADDRS 48
static uint64_t nth_addr(size_t i)
{
	return 0x340 + i * 0xb;
}
