// SPDX-License-Identifier: Apache-2.0
#include "image/find_symbol.h"

#include "image/elf_file.h"
#include "image/file_guard.h"

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
