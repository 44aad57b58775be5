// SPDX-License-Identifier: Apache-2.0
#include "image/elf_file.h"

#include <elf.h>
#include <string.h>

#include "base/cursor.h"

// "jmp *disp32(%rip)", the one instruction that all kinds of stubs have in common (psABI,
// "Procedure Linkage Table"; with -z ibtplt an endbr64 comes before it). The slot it jumps through
// is what a relocation fills in.
static bool decode_slot(const uint8_t *stub, size_t len, uint64_t stub_addr, uint64_t *ret_slot)
{
	for (size_t i = 0; i + 6 <= len; i++) {
		if (stub[i] != 0xff || stub[i + 1] != 0x25)
			continue;
		struct fm_cursor c = fm_cursor_over(stub + i + 2, 4);
		*ret_slot = stub_addr + i + 6 + (uint64_t)(int64_t)(int32_t)fm_cursor_u32(&c);
		return true;
	}
	return false;
}

static const char *name_of_slot(const struct fm_elf *e, uint64_t slot)
{
	for (Elf_Scn *scn = elf_nextscn(e->elf, NULL); scn; scn = elf_nextscn(e->elf, scn)) {
		GElf_Shdr header, symbols;
		if (!gelf_getshdr(scn, &header) || header.sh_type != SHT_RELA || !header.sh_entsize)
			continue;
		Elf_Data *data = elf_getdata(scn, NULL);
		size_t n = data ? data->d_size / header.sh_entsize : 0;
		for (size_t i = 0; i < n; i++) {
			GElf_Rela rela;
			if (!gelf_getrela(data, (int)i, &rela) || rela.r_offset != slot)
				continue;
			Elf_Scn *table = elf_getscn(e->elf, header.sh_link);
			Elf_Data *entries = table && gelf_getshdr(table, &symbols) ? elf_getdata(table, NULL) : NULL;
			GElf_Sym sym;
			if (!entries || !gelf_getsym(entries, (int)GELF_R_SYM(rela.r_info), &sym) || !sym.st_name)
				return NULL;
			return elf_strptr(e->elf, symbols.sh_link, sym.st_name);
		}
	}
	return NULL;
}

enum fm_err fm_x86_plt_find(const struct fm_elf *e, uint64_t addr, const char **ret_name, uint64_t *ret_start)
{
	static const char *const sections[] = { ".plt.sec", ".plt", ".plt.got" };
	GElf_Ehdr ehdr;
	if (!e->elf || !gelf_getehdr(e->elf, &ehdr) || ehdr.e_machine != EM_X86_64)
		return FM_E_NOT_FOUND;
	for (size_t i = 0; i < FM_ARRAY_LEN(sections); i++) {
		GElf_Shdr header;
		Elf_Data *data = fm_elf_section(e, sections[i], &header);
		if (!data || addr < header.sh_addr || addr - header.sh_addr >= data->d_size)
			continue;
		uint64_t size = header.sh_entsize == 8 ? 8 : 16, off = (addr - header.sh_addr) / size * size, slot;
		size_t len = FM_MIN((size_t)size, data->d_size - (size_t)off);
		if (!decode_slot((uint8_t *)data->d_buf + off, len, header.sh_addr + off, &slot))
			return FM_E_NOT_FOUND;
		*ret_name = name_of_slot(e, slot);
		*ret_start = header.sh_addr + off;
		return *ret_name && **ret_name ? FM_OK : FM_E_NOT_FOUND;
	}
	return FM_E_NOT_FOUND;
}
