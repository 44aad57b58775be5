// SPDX-License-Identifier: Apache-2.0
// Names of the jump stubs through which a library calls functions of others: linkers give them
// none.
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "image/elf_file.h"

// The function that the stub at the address jumps to, and where the stub begins. x86-64 only.
// FM_E_NOT_FOUND: no stub.
FM_MUST_CHECK enum fm_err fm_x86_plt_find(const struct fm_elf *e, uint64_t addr, const char **ret_name,
					  uint64_t *ret_start);
