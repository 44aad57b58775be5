// SPDX-License-Identifier: Apache-2.0
#include "image/jit.h"

#include <elf.h>
#include <gelf.h>
#include <libelf.h>
#include <stdlib.h>
#include <string.h>

#include "image/cfa_section.h"
#include "image/elf_file.h"

#define MAX_SYMBOLS (1u << 20)

void fm_jit_rows_deinit(struct fm_jit_rows *r)
{
	fm_vec_deinit(&r->rows);
}

// ---- relocation ----

struct object {
	uint8_t *bytes;
	size_t len;
	Elf64_Ehdr header;
};

static bool is_within(const struct object *o, uint64_t off, uint64_t size)
{
	return off <= o->len && size <= o->len - off;
}

static bool get_section(const struct object *o, uint32_t idx, Elf64_Shdr *ret)
{
	if (idx >= o->header.e_shnum)
		return false;
	memcpy(ret, o->bytes + o->header.e_shoff + (uint64_t)idx * sizeof(*ret), sizeof(*ret));
	return ret->sh_type == SHT_NOBITS || is_within(o, ret->sh_offset, ret->sh_size);
}

static const char *section_name(const struct object *o, const Elf64_Shdr *s)
{
	Elf64_Shdr names;
	if (!get_section(o, o->header.e_shstrndx, &names) || names.sh_type == SHT_NOBITS ||
	    s->sh_name >= names.sh_size ||
	    !memchr(o->bytes + names.sh_offset + s->sh_name, 0, names.sh_size - s->sh_name))
		return "";
	return (const char *)o->bytes + names.sh_offset + s->sh_name;
}

static void apply(const struct object *o, const Elf64_Shdr *target, const Elf64_Shdr *symtab, const Elf64_Rela *rela)
{
	uint64_t sym_off = ELF64_R_SYM(rela->r_info) * sizeof(Elf64_Sym), type = ELF64_R_TYPE(rela->r_info);
	Elf64_Sym sym;
	Elf64_Shdr home;
	if (sym_off > symtab->sh_size || symtab->sh_size - sym_off < sizeof(sym))
		return;
	memcpy(&sym, o->bytes + symtab->sh_offset + sym_off, sizeof(sym));
	uint64_t value = sym.st_value + (uint64_t)rela->r_addend;
	if (sym.st_shndx != SHN_ABS) {
		if (sym.st_shndx == SHN_UNDEF || !get_section(o, sym.st_shndx, &home))
			return;
		// What refers to debug sections counts from their beginning, wherever the compiler
		// has put them.
		value += home.sh_flags & SHF_ALLOC ? home.sh_addr : 0;
	}
	if (type == R_X86_64_PC32 || type == R_X86_64_PC64)
		value -= target->sh_addr + rela->r_offset;
	unsigned size = type == R_X86_64_64 || type == R_X86_64_PC64                           ? 8
			: type == R_X86_64_32 || type == R_X86_64_32S || type == R_X86_64_PC32 ? 4
											       : 0;
	if (!size || rela->r_offset > target->sh_size || target->sh_size - rela->r_offset < size)
		return;
	memcpy(o->bytes + target->sh_offset + rela->r_offset, &value, size); // little-endian, as the object
}

// Puts addresses into the sections that are read here. The compiler's own copy of the code was
// relocated; what it shows to debuggers is the object as it was, with the sections' addresses
// filled in.
static void relocate(const struct object *o)
{
	for (uint32_t i = 0; i < o->header.e_shnum; i++) {
		Elf64_Shdr relocations, target, symtab;
		if (!get_section(o, i, &relocations) || relocations.sh_type != SHT_RELA ||
		    !get_section(o, relocations.sh_info, &target) || target.sh_type == SHT_NOBITS ||
		    !get_section(o, relocations.sh_link, &symtab) || symtab.sh_type != SHT_SYMTAB)
			continue;
		const char *name = section_name(o, &target);
		if (strncmp(name, ".debug_", 7) != 0 && strcmp(name, ".eh_frame") != 0)
			continue;
		for (uint64_t off = 0; relocations.sh_size - off >= sizeof(Elf64_Rela); off += sizeof(Elf64_Rela)) {
			Elf64_Rela rela;
			memcpy(&rela, o->bytes + relocations.sh_offset + off, sizeof(rela));
			apply(o, &target, &symtab, &rela);
		}
	}
}

static bool open_object(uint8_t *bytes, size_t len, struct object *ret)
{
	*ret = (struct object){ bytes, len, { { 0 } } };
	if (len < sizeof(ret->header))
		return false;
	memcpy(&ret->header, bytes, sizeof(ret->header));
	const Elf64_Ehdr *h = &ret->header;
	return !memcmp(h->e_ident, ELFMAG, SELFMAG) && h->e_ident[EI_CLASS] == ELFCLASS64 &&
	       h->e_ident[EI_DATA] == ELFDATA2LSB && h->e_machine == EM_X86_64 &&
	       h->e_shentsize == sizeof(Elf64_Shdr) && h->e_shnum > 0 &&
	       is_within(ret, h->e_shoff, (uint64_t)h->e_shnum * sizeof(Elf64_Shdr));
}

// ---- functions ----

static void add_symbols(Elf *elf, Elf_Scn *scn, const GElf_Shdr *table, bool is_relocatable, uint32_t owner,
			struct fm_code_ranges *ranges)
{
	Elf_Data *data = elf_getdata(scn, NULL);
	if (!data || !data->d_buf || !table->sh_entsize)
		return;
	for (size_t i = 0; i < data->d_size / table->sh_entsize && i < MAX_SYMBOLS; i++) {
		GElf_Sym sym;
		GElf_Shdr home;
		if (!gelf_getsym(data, (int)i, &sym) || GELF_ST_TYPE(sym.st_info) != STT_FUNC ||
		    sym.st_shndx == SHN_UNDEF)
			continue;
		Elf_Scn *home_scn = sym.st_shndx < SHN_LORESERVE ? elf_getscn(elf, sym.st_shndx) : NULL;
		bool has_home = home_scn && gelf_getshdr(home_scn, &home);
		const char *name = elf_strptr(elf, table->sh_link, sym.st_name);
		if (!name || (is_relocatable && !has_home))
			continue;
		uint64_t start = sym.st_value + (is_relocatable ? home.sh_addr : 0), size = sym.st_size;
		if (!size && has_home && start >= home.sh_addr && start - home.sh_addr < home.sh_size)
			size = home.sh_addr + home.sh_size - start; // assembled by hand
		// Below the first pages nothing is mapped: the section was never loaded.
		if (start >= 4096)
			fm_code_ranges_add(ranges, start, size, fm_str_of(name), owner);
	}
}

enum fm_err fm_jit_elf_read(uint8_t *bytes, size_t len, uint32_t owner, struct fm_code_ranges *ranges,
			    struct fm_jit_rows *ret)
{
	struct object object;
	if (!open_object(bytes, len, &object))
		return FM_E_CORRUPT;
	if (object.header.e_type == ET_REL)
		relocate(&object);
	elf_version(EV_CURRENT);
	Elf *elf = elf_memory((char *)bytes, len);
	if (!elf)
		return FM_E_CORRUPT;
	fm_cfa_make_plain(elf);
	for (Elf_Scn *scn = ranges ? elf_nextscn(elf, NULL) : NULL; scn; scn = elf_nextscn(elf, scn)) {
		GElf_Shdr header;
		if (gelf_getshdr(scn, &header) && header.sh_type == SHT_SYMTAB)
			add_symbols(elf, scn, &header, object.header.e_type == ET_REL, owner, ranges);
	}
	fm_unwind_rows_of_elf(elf, &ret->rows, &ret->base, &ret->end);
	elf_end(elf);
	return FM_OK;
}

// ---- lines and inlined calls ----

struct fm_jit_debug {
	struct fm_elf file;
	struct fm_lines *lines;
};

struct fm_jit_debug *fm_jit_debug_open(uint8_t *bytes, size_t len)
{
	struct fm_jit_debug d = { FM_ELF_NONE, NULL };
	if (fm_elf_open_memory(bytes, len, false, &d.file))
		return NULL;
	if (!fm_elf_has_section(&d.file, ".debug_info") || fm_lines_open_elf(&d.file, &d.lines)) {
		fm_elf_close(&d.file);
		return NULL;
	}
	struct fm_jit_debug *ret = fm_alloc(sizeof(*ret));
	*ret = d;
	return ret;
}

void fm_jit_debug_close(struct fm_jit_debug *d)
{
	if (!d)
		return;
	fm_lines_close(d->lines);
	fm_elf_close(&d->file);
	free(d);
}

void fm_jit_debug_resolve(struct fm_jit_debug *d, const uint64_t *addrs, size_t n, fm_lines_fn each, void *ctx)
{
	fm_lines_resolve(d->lines, addrs, n, each, ctx);
}

// ---- bare tables ----

void fm_jit_eh_frame_read(const uint8_t *eh_frame, size_t len, uint64_t addr, struct fm_jit_rows *ret)
{
	// libdw wants a file: the smallest that holds the section.
	static const char names[] = "\0.eh_frame\0.shstrtab";
	uint64_t table_off = sizeof(Elf64_Ehdr), names_off = table_off + ((len + 7) & ~(size_t)7);
	uint64_t headers_off = names_off + 24;
	size_t size = headers_off + 3 * sizeof(Elf64_Shdr);
	uint8_t *file = fm_alloc(size);
	Elf64_Ehdr header = {
		.e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
		.e_type = ET_EXEC,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_shoff = headers_off,
		.e_ehsize = sizeof(header),
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = 3,
		.e_shstrndx = 2,
	};
	Elf64_Shdr sections[3] = {
		{ 0 },
		{ .sh_name = 1,
		  .sh_type = SHT_PROGBITS,
		  .sh_flags = SHF_ALLOC,
		  .sh_addr = addr,
		  .sh_offset = table_off,
		  .sh_size = len,
		  .sh_addralign = 8 },
		{ .sh_name = 11,
		  .sh_type = SHT_STRTAB,
		  .sh_offset = names_off,
		  .sh_size = sizeof(names),
		  .sh_addralign = 1 },
	};
	memcpy(file, &header, sizeof(header));
	memcpy(file + table_off, eh_frame, len);
	memcpy(file + names_off, names, sizeof(names));
	memcpy(file + headers_off, sections, sizeof(sections));
	if (fm_jit_elf_read(file, size, 0, NULL, ret) != FM_OK)
		ret->rows.n = 0;
	free(file);
}

size_t fm_jit_eh_frame_length(const uint8_t *data, size_t len, bool *ret_is_bad)
{
	size_t pos = 0;
	*ret_is_bad = false;
	while (len - pos >= 4) {
		uint32_t size;
		memcpy(&size, data + pos, 4);
		if (size == 0)
			return pos;
		if (size < 4 || size >= 0xfffffff0u) { // the 64-bit form is used by nobody
			*ret_is_bad = true;
			return 0;
		}
		if (size > len - pos - 4)
			return 0;
		pos += 4 + (size_t)size;
	}
	return 0;
}
