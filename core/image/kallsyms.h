// SPDX-License-Identifier: Apache-2.0
// Names of the functions of the kernel that runs now: /proc/kallsyms, which shows zeros for addresses
// that it does not want to tell.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"

typedef void (*fm_kallsyms_fn)(void *ctx, uint64_t addr, const char *name);

// Tells the function of each address that is a key of addrs, in order of addresses. Returns how many
// have none.
size_t fm_kallsyms_name(const struct fm_map *addrs, fm_kallsyms_fn each, void *ctx);
// Where a symbol lies; 0 = it is hidden, or there is none.
uint64_t fm_kallsyms_address(const char *name);
