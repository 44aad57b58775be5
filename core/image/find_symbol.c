// SPDX-License-Identifier: Apache-2.0
#include "image/symbols.h"

#include <string.h>

#include "image/elf_file.h"

#define PAGE_MASK 4095ull

enum fm_err fm_find_symbol(const char *path, const char *name, uint64_t map_off, uint64_t *ret_addr,
			   uint64_t *ret_delta)
{
	FM_GUARD_FILES;
	struct fm_elf e = FM_ELF_NONE;
	enum fm_err err = fm_elf_open(path, &e, NULL);
	if (err)
		return err;
	size_t n = 0;
	bool has_segment = false;
	elf_getphdrnum(e.elf, &n);
	for (size_t i = 0; i < n && !has_segment; i++) {
		GElf_Phdr segment;
		if (!gelf_getphdr(e.elf, (int)i, &segment) || segment.p_type != PT_LOAD ||
		    (segment.p_offset & ~PAGE_MASK) != map_off)
			continue;
		*ret_delta = segment.p_vaddr & ~PAGE_MASK;
		has_segment = segment.p_flags & PF_X;
	}
	GElf_Sym symbol;
	bool is_found = has_segment && (fm_elf_find_symbol(&e, SHT_SYMTAB, name, &symbol) ||
					fm_elf_find_symbol(&e, SHT_DYNSYM, name, &symbol));
	if (is_found)
		*ret_addr = symbol.st_value;
	fm_elf_close(&e);
	return is_found ? FM_OK : FM_E_NOT_FOUND;
}

static bool is_one_of(const char *name, const char *const *names)
{
	for (; *names; names++)
		if (!strcmp(name, *names))
			return true;
	return false;
}

enum fm_err fm_imports_any(const char *path, const char *const *names, bool *ret)
{
	FM_GUARD_FILES;
	struct fm_elf e = FM_ELF_NONE;
	enum fm_err err = fm_elf_open(path, &e, NULL);
	if (err)
		return err;
	GElf_Shdr header;
	Elf_Scn *scn = fm_elf_find_type(&e, SHT_DYNSYM);
	Elf_Data *data = scn && gelf_getshdr(scn, &header) && header.sh_entsize ? elf_getdata(scn, NULL) : NULL;
	bool is_found = false;
	for (size_t i = 0; data && data->d_buf && !is_found && i < data->d_size / header.sh_entsize; i++) {
		GElf_Sym sym;
		const char *name = gelf_getsym(data, (int)i, &sym) && sym.st_shndx == SHN_UNDEF
					   ? elf_strptr(e.elf, header.sh_link, sym.st_name)
					   : NULL;
		is_found = name && is_one_of(name, names);
	}
	fm_elf_close(&e);
	if (!data)
		return FM_E_NOT_FOUND; // no dynamic symbols: a static program, which is not hooked at all
	*ret = is_found;
	return FM_OK;
}
