// Damaged ELF files and unwind tables, as the reader of other processes' stacks meets them. The input says how to damage a whole file:
// pairs of a place and a byte; the file is this program itself.
#include "fuzz.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "image/unwind_file.h"

static uint8_t *whole;
static size_t whole_len;
static uint64_t section_table;

static void read_whole(void)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct stat st;
	FUZZ_CHECK(fd >= 0 && !fstat(fd, &st));
	whole_len = (size_t)st.st_size;
	whole = mmap(NULL, whole_len, PROT_READ, MAP_PRIVATE, fd, 0);
	FUZZ_CHECK(whole != MAP_FAILED);
	memcpy(&section_table, whole + 40, 8);
	close(fd);
}

// Half of the places are among the section headers and their neighbours, where lies do most harm.
static size_t place_of(const uint8_t *p)
{
	uint32_t at = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16;
	if (p[0] & 1 && section_table < whole_len)
		return (size_t)section_table + at % (whole_len - (size_t)section_table);
	return at % whole_len;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!whole)
		read_whole();
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	FUZZ_CHECK(fd >= 0 && write(fd, whole, whole_len) == (ssize_t)whole_len);
	for (size_t i = 0; i + 4 <= size && i < 64; i += 4) {
		size_t at = place_of(data + i);
		if (at >= 5) // the magic stays, or nothing is tested
			FUZZ_CHECK(pwrite(fd, data + i + 3, 1, (off_t)at) == 1);
	}
	struct fm_unwind_file *f;
	if (fm_unwind_file_open(fd, &f))
		return 0;
	struct fm_unwind_file_info info;
	fm_unwind_file_get(f, &info);
	FUZZ_CHECK(info.start < info.end && info.build_id_len <= 64);
	for (uint64_t i = 0; i < 64; i++) {
		struct fm_unwind_rule rule;
		uint64_t addr = 0x1000 + i * 0x3f7, start;
		fm_unwind_file_rule(f, addr, &rule);
		FUZZ_CHECK(rule.kind <= FM_RULE_SIGNAL && rule.cfa_reg < FM_RULE_N_REGS);
		if (fm_unwind_file_function(f, addr, &start) == FM_OK)
			FUZZ_CHECK(start <= addr);
	}
	uint64_t symbol, mapped;
	if (fm_unwind_file_symbol(f, "main", &symbol, NULL) || fm_unwind_file_map(f, 0, &mapped))
		symbol = mapped = 0;
	fm_unwind_file_close(f);
	return 0;
}
