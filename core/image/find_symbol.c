#include "image/find_symbol.h"

#include <string.h>

#include "image/elf_file.h"

#define PAGE_MASK 4095ull

static bool find_in(const struct fm_elf *e, unsigned type, const char *name, uint64_t *ret)
{
	GElf_Shdr header;
	Elf_Scn *scn = fm_elf_find_type(e, type);
	Elf_Data *data = scn ? elf_getdata(scn, NULL) : NULL;
	if (!data || !data->d_buf || !gelf_getshdr(scn, &header) || !header.sh_entsize)
		return false;
	for (size_t i = 0; i < data->d_size / header.sh_entsize; i++) {
		GElf_Sym sym;
		if (!gelf_getsym(data, (int)i, &sym) || sym.st_shndx == SHN_UNDEF)
			continue;
		const char *have = elf_strptr(e->elf, header.sh_link, sym.st_name);
		if (have && have[0] == name[0] && !strcmp(have, name)) {
			*ret = sym.st_value;
			return true;
		}
	}
	return false;
}

enum fm_err fm_find_symbol(const char *path, const char *name, uint64_t map_off, uint64_t *ret_addr,
			   uint64_t *ret_delta)
{
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
	bool is_found =
		has_segment && (find_in(&e, SHT_SYMTAB, name, ret_addr) || find_in(&e, SHT_DYNSYM, name, ret_addr));
	fm_elf_close(&e);
	return is_found ? FM_OK : FM_E_NOT_FOUND;
}
