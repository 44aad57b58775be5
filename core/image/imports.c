// SPDX-License-Identifier: Apache-2.0
#include "image/imports.h"

#include <string.h>

#include "image/elf_file.h"
#include "image/file_guard.h"

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
