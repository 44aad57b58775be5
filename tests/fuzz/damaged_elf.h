// A whole ELF file with some bytes changed, for targets that read such files. The input says how: four bytes each, a place (three) and
// what is put there.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"

struct whole_elf {
	uint8_t *bytes;
	size_t len;
	uint64_t section_table;
};

static struct whole_elf read_whole(const char *path)
{
	struct whole_elf elf;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	FUZZ_CHECK(fd >= 0 && !fstat(fd, &st));
	elf.len = (size_t)st.st_size;
	elf.bytes = mmap(NULL, elf.len, PROT_READ, MAP_PRIVATE, fd, 0);
	FUZZ_CHECK(elf.bytes != MAP_FAILED);
	memcpy(&elf.section_table, elf.bytes + 40, 8);
	close(fd);
	return elf;
}

// Half of the places are among the section headers and their neighbours, where lies do most harm.
static size_t place_of(const struct whole_elf *elf, const uint8_t *p)
{
	uint32_t at = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16;
	if (p[0] & 1 && elf->section_table < elf->len)
		return (size_t)elf->section_table + at % (elf->len - (size_t)elf->section_table);
	return at % elf->len;
}

// A descriptor of the damaged file. path: the file, the same in every call; NULL = this program itself.
static int damaged_elf(const char *path, const uint8_t *data, size_t size)
{
	static struct whole_elf elf;
	if (!elf.bytes)
		elf = read_whole(path ? path : "/proc/self/exe");
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	FUZZ_CHECK(fd >= 0 && write(fd, elf.bytes, elf.len) == (ssize_t)elf.len);
	for (size_t i = 0; i + 4 <= size && i < 64; i += 4) {
		size_t at = place_of(&elf, data + i);
		if (at >= 5) // the magic stays, or nothing is tested
			FUZZ_CHECK(pwrite(fd, data + i + 3, 1, (off_t)at) == 1);
	}
	return fd;
}
