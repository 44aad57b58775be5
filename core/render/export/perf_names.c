// SPDX-License-Identifier: Apache-2.0
#include "render/export/perf_names.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define TEXT FM_PERF_NAMES_TEXT_OFFSET
#define PAGE_BYTES 0x1000u
#define NOTE_OFFSET 0x200u
#define NOTE_BYTES (sizeof(Elf64_Nhdr) + 4 + FM_PERF_NAMES_ID_BYTES)

enum section { NONE, NOTE, CODE, SYMTAB, STRTAB, NAMES, N_SECTIONS };

static const char section_names[] = "\0.note.gnu.build-id\0.text\0.symtab\0.strtab\0.shstrtab";
static const uint32_t section_name_offs[N_SECTIONS] = { 0, 1, 20, 26, 34, 42 };

void fm_perf_names_deinit(struct fm_perf_names *n)
{
	fm_buf_deinit(&n->strings);
	fm_vec_deinit(&n->string_offs);
}

uint32_t fm_perf_names_add(struct fm_perf_names *n, struct fm_str name)
{
	if (!n->strings.len)
		fm_buf_u8(&n->strings, 0); // the empty name comes first
	fm_vec_push(&n->string_offs, (uint32_t)n->strings.len);
	for (uint32_t i = 0; i < name.len; i++) // a name ends with its first NUL
		fm_buf_u8(&n->strings, name.p[i] ? (uint8_t)name.p[i] : '?');
	fm_buf_u8(&n->strings, 0);
	return (uint32_t)n->string_offs.n - 1;
}

uint64_t fm_perf_names_text_bytes(const struct fm_perf_names *n)
{
	uint64_t bytes = FM_MAX(n->string_offs.n, (size_t)1) * FM_PERF_NAMES_FUNCTION_BYTES;
	return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

void fm_perf_names_build_id(const struct fm_perf_names *n, uint8_t ret[FM_PERF_NAMES_ID_BYTES])
{
	for (uint64_t i = 0; i < FM_PERF_NAMES_ID_BYTES; i += 4) {
		uint64_t check = fm_checksum_xxh64(n->strings.data, n->strings.len, i);
		memcpy(ret + i, &check, 4);
	}
}

static void write_at(FILE *out, uint64_t offset, const void *p, size_t len)
{
	fseeko(out, (off_t)offset, SEEK_SET);
	if (len)
		fwrite(p, 1, len, out);
}

static void write_symbols(const struct fm_perf_names *n, FILE *out)
{
	const Elf64_Sym none = { 0 };
	fwrite(&none, sizeof(none), 1, out);
	for (size_t i = 0; i < n->string_offs.n; i++) {
		const Elf64_Sym symbol = {
			.st_name = n->string_offs.items[i],
			.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
			.st_shndx = CODE,
			.st_value = TEXT + i * FM_PERF_NAMES_FUNCTION_BYTES,
			.st_size = FM_PERF_NAMES_FUNCTION_BYTES,
		};
		fwrite(&symbol, sizeof(symbol), 1, out);
	}
}

static void write_head(FILE *out, uint64_t sections_at, uint64_t text_bytes)
{
	const Elf64_Ehdr head = {
		.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
		.e_type = ET_DYN,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_phoff = sizeof(Elf64_Ehdr),
		.e_shoff = sections_at,
		.e_ehsize = sizeof(Elf64_Ehdr),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = 3,
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = N_SECTIONS,
		.e_shstrndx = NAMES,
	};
	const Elf64_Phdr segments[] = {
		// As in any library the first one begins with the file: readers count addresses from it.
		{ .p_type = PT_LOAD, .p_flags = PF_R, .p_filesz = TEXT, .p_memsz = TEXT, .p_align = PAGE_BYTES },
		{ .p_type = PT_LOAD,
		  .p_flags = PF_R | PF_X,
		  .p_offset = TEXT,
		  .p_vaddr = TEXT,
		  .p_paddr = TEXT,
		  .p_filesz = text_bytes,
		  .p_memsz = text_bytes,
		  .p_align = PAGE_BYTES },
		{ .p_type = PT_NOTE,
		  .p_flags = PF_R,
		  .p_offset = NOTE_OFFSET,
		  .p_vaddr = NOTE_OFFSET,
		  .p_paddr = NOTE_OFFSET,
		  .p_filesz = NOTE_BYTES,
		  .p_memsz = NOTE_BYTES,
		  .p_align = 4 },
	};
	write_at(out, 0, &head, sizeof(head));
	fwrite(segments, sizeof(segments), 1, out);
}

static void write_note(const struct fm_perf_names *n, FILE *out)
{
	uint8_t id[FM_PERF_NAMES_ID_BYTES];
	const Elf64_Nhdr note = { 4, FM_PERF_NAMES_ID_BYTES, NT_GNU_BUILD_ID };
	fm_perf_names_build_id(n, id);
	write_at(out, NOTE_OFFSET, &note, sizeof(note));
	fwrite("GNU", 1, 4, out);
	fwrite(id, 1, sizeof(id), out);
}

void fm_perf_names_write(const struct fm_perf_names *n, FILE *out)
{
	uint64_t text_bytes = fm_perf_names_text_bytes(n), symbols_at = TEXT + text_bytes;
	uint64_t symbols_bytes = (n->string_offs.n + 1) * sizeof(Elf64_Sym), strings_at = symbols_at + symbols_bytes;
	uint64_t names_at = strings_at + n->strings.len, sections_at = (names_at + sizeof(section_names) + 7) & ~7ull;
	const Elf64_Shdr sections[N_SECTIONS] = {
		[NOTE] = { .sh_type = SHT_NOTE,
			   .sh_flags = SHF_ALLOC,
			   .sh_addr = NOTE_OFFSET,
			   .sh_offset = NOTE_OFFSET,
			   .sh_size = NOTE_BYTES,
			   .sh_addralign = 4 },
		[CODE] = { .sh_type = SHT_PROGBITS,
			   .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
			   .sh_addr = TEXT,
			   .sh_offset = TEXT,
			   .sh_size = text_bytes,
			   .sh_addralign = FM_PERF_NAMES_FUNCTION_BYTES },
		[SYMTAB] = { .sh_type = SHT_SYMTAB,
			     .sh_offset = symbols_at,
			     .sh_size = symbols_bytes,
			     .sh_link = STRTAB,
			     .sh_info = 1,
			     .sh_addralign = 8,
			     .sh_entsize = sizeof(Elf64_Sym) },
		[STRTAB] = { .sh_type = SHT_STRTAB,
			     .sh_offset = strings_at,
			     .sh_size = n->strings.len,
			     .sh_addralign = 1 },
		[NAMES] = { .sh_type = SHT_STRTAB,
			    .sh_offset = names_at,
			    .sh_size = sizeof(section_names),
			    .sh_addralign = 1 },
	};
	write_head(out, sections_at, text_bytes);
	write_note(n, out);
	write_at(out, symbols_at, NULL, 0); // what is passed over reads as zeros
	write_symbols(n, out);
	fwrite(n->strings.data, 1, n->strings.len, out);
	fwrite(section_names, 1, sizeof(section_names), out);
	fseeko(out, (off_t)sections_at, SEEK_SET);
	for (unsigned i = 0; i < N_SECTIONS; i++) {
		Elf64_Shdr section = sections[i];
		section.sh_name = section_name_offs[i];
		fwrite(&section, sizeof(section), 1, out);
	}
}
