// SPDX-License-Identifier: Apache-2.0
// A core file names the files that were mapped, and may come from a stranger.
#include "collect/process/core_file.h"

#include <elf.h>
#include <sys/procfs.h>

#include "scratch.h"

#define MAPPED_AT 0x10000u

static void put_note(struct fm_buf *b, uint32_t type, const void *p, size_t len)
{
	fm_buf_u32(b, 5);
	fm_buf_u32(b, (uint32_t)len);
	fm_buf_u32(b, type);
	fm_buf_bytes(b, "CORE\0\0\0", 8);
	fm_buf_bytes(b, p, len);
	while (b->len % 4)
		fm_buf_u8(b, 0);
}

// One thread, and one mapping of that file, none of which was dumped.
static struct fm_core *core_with(const char *mapped)
{
	struct fm_buf notes = { 0 }, files = { 0 }, all = { 0 };
	const struct elf_prstatus status = { .pr_pid = 7 };
	struct fm_core *core;
	const uint64_t words[] = { 1, 4096, MAPPED_AT, MAPPED_AT + 4096, 0 };
	for (size_t i = 0; i < FM_ARRAY_LEN(words); i++)
		fm_buf_u64(&files, words[i]);
	fm_buf_bytes(&files, mapped, strlen(mapped) + 1);
	put_note(&notes, NT_PRSTATUS, &status, sizeof(status));
	put_note(&notes, NT_FILE, files.data, files.len);
	const Elf64_Ehdr head = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
					       EV_CURRENT },
				  .e_type = ET_CORE,
				  .e_machine = EM_X86_64,
				  .e_phoff = sizeof(head),
				  .e_phentsize = sizeof(Elf64_Phdr),
				  .e_phnum = 1 };
	const Elf64_Phdr segment = { .p_type = PT_NOTE,
				     .p_offset = sizeof(head) + sizeof(segment),
				     .p_filesz = notes.len };
	fm_buf_bytes(&all, &head, sizeof(head));
	fm_buf_bytes(&all, &segment, sizeof(segment));
	fm_buf_bytes(&all, notes.data, notes.len);
	const char *path = scratch_file();
	FILE *f = fopen(path, "w");
	CHECK(f && fwrite(all.data, 1, all.len, f) == all.len && fclose(f) == 0);
	CHECK_EQ(fm_core_open(path, &core, NULL), FM_OK);
	fm_buf_deinit(&notes);
	fm_buf_deinit(&files);
	fm_buf_deinit(&all);
	return core;
}

TEST(programs_and_libraries_stand_for_what_was_not_dumped)
{
	uint8_t bytes[4];
	struct fm_core *core = core_with("/proc/self/exe");
	CHECK_EQ(fm_core_read(core, MAPPED_AT, bytes, sizeof(bytes)), 4);
	CHECK(!memcmp(bytes, ELFMAG, SELFMAG));
	fm_core_close(core);
}

TEST(no_other_file_is_shown_as_memory)
{
	uint8_t bytes[4];
	const char *secret = scratch_file();
	FILE *f = fopen(secret, "w");
	CHECK(f && fputs("a key that only its owner may read", f) >= 0 && fclose(f) == 0);
	struct fm_core *core = core_with(secret);
	CHECK_EQ(fm_core_read(core, MAPPED_AT, bytes, sizeof(bytes)), 0);
	CHECK(fm_core_open_file(core, secret) < 0);
	fm_core_close(core);
}

TEST_MAIN()
