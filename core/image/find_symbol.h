// SPDX-License-Identifier: Apache-2.0
// One symbol of an ELF file, and where its segments go: enough to find a variable in a process from
// its maps.
#pragma once

#include <stdint.h>

#include "base/err.h"

// *ret_addr: the symbol's ELF virtual address (.symtab, or .dynsym when that is stripped).
// *ret_delta: what to take off a mapping's start to get the image's bias, for the mapping that
// begins at map_off of the file.
FM_MUST_CHECK enum fm_err fm_find_symbol(const char *path, const char *name, uint64_t map_off, uint64_t *ret_addr,
					 uint64_t *ret_delta);
