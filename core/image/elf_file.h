// SPDX-License-Identifier: Apache-2.0
// One ELF file, opened for reading, and the few facts that everything else in this room asks of it.
// Inside this room only: the rest of the house sees symbols.h, lines.h and object.h.
#pragma once

#include <gelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define FM_BUILD_ID_MAX 64

struct fm_elf {
	Elf *elf;     // NULL: not opened
	int fd;       // -1: in memory
	void *memory; // to be freed after elf
	uint8_t build_id[FM_BUILD_ID_MAX];
	uint32_t build_id_len;
};

#define FM_ELF_NONE ((struct fm_elf){ .fd = -1 })

// FM_E_NOT_FOUND: no such file or not readable; FM_E_CORRUPT: no regular file, or no ELF file.
FM_MUST_CHECK enum fm_err fm_elf_open(const char *path, struct fm_elf *ret, struct fm_diag *diag);
// Takes over memory (malloc), also on failure. is_borrowed: the bytes are not ours to free.
FM_MUST_CHECK enum fm_err fm_elf_open_memory(void *memory, size_t len, bool is_borrowed, struct fm_elf *ret);
void fm_elf_close(struct fm_elf *e); // FM_ELF_NONE is fine

// The section's bytes as they are in the file, or NULL. ret_header may be NULL.
Elf_Data *fm_elf_section(const struct fm_elf *e, const char *name, GElf_Shdr *ret_header);
bool fm_elf_has_section(const struct fm_elf *e, const char *name);
// A symbol table of that type (SHT_SYMTAB, SHT_DYNSYM), or NULL.
Elf_Scn *fm_elf_find_type(const struct fm_elf *e, unsigned type);
// A defined symbol of a table of this type, by its name.
bool fm_elf_find_symbol(const struct fm_elf *e, unsigned type, const char *name, GElf_Sym *ret);
