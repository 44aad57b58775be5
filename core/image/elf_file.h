// SPDX-License-Identifier: Apache-2.0
// One ELF file, opened for reading, and the few facts that everything else in this room asks of it.
// Inside this room only: the rest of the house sees symbols.h, lines.h and object.h.
#pragma once

#include <gelf.h>
#include <libelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/err.h"
#include "image/unwind_rows.h"

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

// Files that become shorter while they are mapped. A program may truncate its own library while we
// read it: the kernel answers a read of what is gone with SIGBUS, and that must not end us. Within
// a guard such a page reads as zeros, as a damaged file might have them.
int fm_file_guard_enter(void);
void fm_file_guard_leave(int *unused);

// At the beginning of a function that reads mapped files: until it returns. May be nested.
#define FM_GUARD_FILES int fm_guard_ __attribute__((cleanup(fm_file_guard_leave), unused)) = fm_file_guard_enter()

// Names of the jump stubs through which a library calls functions of others: linkers give them
// none.

// The function that the stub at the address jumps to, and where the stub begins. x86-64 only.
// FM_E_NOT_FOUND: no stub.
FM_MUST_CHECK enum fm_err fm_x86_plt_find(const struct fm_elf *e, uint64_t addr, const char **ret_name,
					  uint64_t *ret_start);

// The part of jit.h that unwind_rows.c does.

// The rows of everything that .eh_frame and .debug_frame describe, counted from *ret_base; *ret_end
// is where the last one ends.
void fm_unwind_rows_of_elf(Elf *elf, struct fm_unwind_rows *ret, uint64_t *ret_base, uint64_t *ret_end);
