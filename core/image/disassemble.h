// SPDX-License-Identifier: Apache-2.0
// Machine code as text, by Capstone, which is loaded at run time where somebody has installed it
// (docs/decisions/0019-capstone-where-it-is.md). The bytes are untrusted.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

// One instruction. Text lives as long as the call: "vmulpd", "ymm0, ymm1, ymm2".
typedef void (*fm_instruction_fn)(void *ctx, uint64_t addr, unsigned size, const char *mnemonic, const char *operands);

// A library that this build can use: FATHOM_CAPSTONE names it, else one beside the program's Python package,
// else the system's. Loads it; who asks in a child process leaves ours without it.
bool fm_disassembler_is_there(void);

// Code of the machine that this program runs on, that lies at addr. Bytes that are no instruction are
// passed over and told as ".byte". FM_E_UNSUPPORTED: no library.
FM_MUST_CHECK enum fm_err fm_disassemble(const uint8_t *code, size_t len, uint64_t addr, fm_instruction_fn each,
					 void *ctx);
