// SPDX-License-Identifier: Apache-2.0
#include "image/elf_file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void read_build_id(struct fm_elf *e)
{
	for (Elf_Scn *scn = elf_nextscn(e->elf, NULL); scn; scn = elf_nextscn(e->elf, scn)) {
		GElf_Shdr header;
		if (!gelf_getshdr(scn, &header) || header.sh_type != SHT_NOTE)
			continue;
		Elf_Data *data = elf_getdata(scn, NULL);
		GElf_Nhdr note;
		size_t name_off, desc_off;
		for (size_t off = 0, next; data && (next = gelf_getnote(data, off, &note, &name_off, &desc_off)) > 0;
		     off = next) {
			if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != 4 ||
			    memcmp((char *)data->d_buf + name_off, "GNU", 4))
				continue;
			e->build_id_len = note.n_descsz < FM_BUILD_ID_MAX ? note.n_descsz : FM_BUILD_ID_MAX;
			memcpy(e->build_id, (char *)data->d_buf + desc_off, e->build_id_len);
			return;
		}
	}
}

static enum fm_err take(struct fm_elf *e, struct fm_elf *ret)
{
	if (!e->elf || elf_kind(e->elf) != ELF_K_ELF) {
		fm_elf_close(e);
		return FM_E_CORRUPT;
	}
	read_build_id(e);
	*ret = *e;
	return FM_OK;
}

enum fm_err fm_elf_open(const char *path, struct fm_elf *ret, struct fm_diag *diag)
{
	elf_version(EV_CURRENT);
	// A fifo or device under a recorded path must not block us: look before opening.
	struct stat st;
	if (stat(path, &st))
		return fm_diag_set(diag, FM_E_NOT_FOUND, "cannot read %s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return fm_diag_set(diag, FM_E_CORRUPT, "%s is not a regular file", path);
	struct fm_elf e = FM_ELF_NONE;
	e.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (e.fd < 0)
		return fm_diag_set(diag, FM_E_NOT_FOUND, "cannot read %s: %s", path, strerror(errno));
	e.elf = elf_begin(e.fd, ELF_C_READ_MMAP, NULL);
	if (take(&e, ret))
		return fm_diag_set(diag, FM_E_CORRUPT, "%s is not an ELF file", path);
	return FM_OK;
}

enum fm_err fm_elf_open_memory(void *memory, size_t len, bool is_borrowed, struct fm_elf *ret)
{
	elf_version(EV_CURRENT);
	struct fm_elf e = FM_ELF_NONE;
	e.memory = is_borrowed ? NULL : memory;
	e.elf = elf_memory(memory, len);
	return take(&e, ret);
}

void fm_elf_close(struct fm_elf *e)
{
	elf_end(e->elf);
	if (e->fd >= 0)
		close(e->fd);
	free(e->memory);
	*e = FM_ELF_NONE;
}

static Elf_Scn *find_section(const struct fm_elf *e, const char *name, GElf_Shdr *ret)
{
	size_t names;
	if (!e->elf || elf_getshdrstrndx(e->elf, &names))
		return NULL;
	for (Elf_Scn *scn = elf_nextscn(e->elf, NULL); scn; scn = elf_nextscn(e->elf, scn)) {
		const char *own = gelf_getshdr(scn, ret) ? elf_strptr(e->elf, names, ret->sh_name) : NULL;
		if (own && !strcmp(own, name))
			return scn;
	}
	return NULL;
}

Elf_Data *fm_elf_section(const struct fm_elf *e, const char *name, GElf_Shdr *ret_header)
{
	GElf_Shdr header;
	Elf_Scn *scn = find_section(e, name, &header);
	if (scn && ret_header)
		*ret_header = header;
	Elf_Data *data = scn && header.sh_type != SHT_NOBITS ? elf_rawdata(scn, NULL) : NULL;
	return data && data->d_buf ? data : NULL;
}

bool fm_elf_has_section(const struct fm_elf *e, const char *name)
{
	GElf_Shdr header;
	return find_section(e, name, &header) && header.sh_type != SHT_NOBITS;
}

Elf_Scn *fm_elf_find_type(const struct fm_elf *e, unsigned type)
{
	GElf_Shdr header;
	for (Elf_Scn *scn = e->elf ? elf_nextscn(e->elf, NULL) : NULL; scn; scn = elf_nextscn(e->elf, scn))
		if (gelf_getshdr(scn, &header) && header.sh_type == type)
			return scn;
	return NULL;
}

bool fm_elf_find_symbol(const struct fm_elf *e, unsigned type, const char *name, GElf_Sym *ret)
{
	GElf_Shdr header;
	Elf_Scn *scn = fm_elf_find_type(e, type);
	Elf_Data *data = scn ? elf_getdata(scn, NULL) : NULL;
	if (!data || !data->d_buf || !gelf_getshdr(scn, &header) || !header.sh_entsize)
		return false;
	for (size_t i = 0; i < data->d_size / header.sh_entsize; i++) {
		if (!gelf_getsym(data, (int)i, ret) || ret->st_shndx == SHN_UNDEF)
			continue;
		const char *have = elf_strptr(e->elf, header.sh_link, ret->st_name);
		if (have && have[0] == name[0] && !strcmp(have, name))
			return true;
	}
	return false;
}
