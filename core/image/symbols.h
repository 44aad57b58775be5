// SPDX-License-Identifier: Apache-2.0
// Function symbols of one ELF file: address -> name. Files are untrusted; a damaged one gives fewer
// names, never a crash.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct fm_symbols;

struct fm_object;

// The table of an opened image and what was found beside it; the object must outlive it.
struct fm_symbols *fm_symbols_create(const struct fm_object *o);
// The same from the file alone: .symtab, or .dynsym and .gnu_debugdata when that is stripped.
// FM_E_NOT_FOUND: no such file; FM_E_CORRUPT: no ELF file.
FM_MUST_CHECK enum fm_err fm_symbols_open(const char *path, struct fm_symbols **ret, struct fm_diag *diag);
// The vDSO that the kernel gives to this process; it has no file.
FM_MUST_CHECK enum fm_err fm_symbols_open_vdso(struct fm_symbols **ret, struct fm_diag *diag);
void fm_symbols_close(struct fm_symbols *symbols); // NULL is fine

struct fm_symbol {
	uint64_t addr, size;
	const char *name; // as the linker knows it; lives as long as the table
};
// The function that holds the ELF virtual address. FM_E_NOT_FOUND between functions.
FM_MUST_CHECK enum fm_err fm_symbols_find(const struct fm_symbols *symbols, uint64_t addr, struct fm_symbol *ret);
// The same for a jump stub of the procedure linkage table, which has no symbol of its own:
// "malloc@plt".
FM_MUST_CHECK enum fm_err fm_symbols_find_stub(struct fm_symbols *symbols, uint64_t addr, struct fm_symbol *ret);
// The last function symbol at or before an address that none covers: a static function is mostly
// near those that call it.
FM_MUST_CHECK enum fm_err fm_symbols_find_before(const struct fm_symbols *symbols, uint64_t addr,
						 struct fm_symbol *ret);
size_t fm_symbols_count(const struct fm_symbols *symbols);

// Where the function that holds addr begins, told by the unwind table (.eh_frame_hdr), which
// stripping leaves in place. Tells the unnamed functions of a stripped library apart.
// FM_E_NOT_FOUND when the table does not say.
FM_MUST_CHECK enum fm_err fm_symbols_function_start(const struct fm_symbols *symbols, uint64_t addr, uint64_t *ret);

// The GNU build id: raw bytes that live as long as the table; empty when the file has none.
struct fm_str fm_symbols_build_id(const struct fm_symbols *symbols);

// One symbol of an ELF file, and where its segments go: enough to find a variable in a process from
// its maps.

// *ret_addr: the symbol's ELF virtual address (.symtab, or .dynsym when that is stripped).
// *ret_delta: what to take off a mapping's start to get the image's bias, for the mapping that
// begins at map_off of the file.
FM_MUST_CHECK enum fm_err fm_find_symbol(const char *path, const char *name, uint64_t map_off, uint64_t *ret_addr,
					 uint64_t *ret_delta);

// What an ELF file asks of others by name.

// *ret: whether its dynamic symbols hold one of these names (the last one NULL) that it does not
// define itself.
FM_MUST_CHECK enum fm_err fm_imports_any(const char *path, const char *const *names, bool *ret);
