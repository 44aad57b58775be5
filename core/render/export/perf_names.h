// SPDX-License-Identifier: Apache-2.0
// An ELF file with nothing but names: a symbol for each function of a capture. perf.data holds
// addresses only; who opens it takes names from the file that was mapped there.
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/str.h"

#define FM_PERF_NAMES_ID_BYTES 20u
#define FM_PERF_NAMES_TEXT_OFFSET 0x1000u // of the code, which is not there, in the file
#define FM_PERF_NAMES_FUNCTION_BYTES 16u  // of each function

struct fm_perf_names {
	struct fm_buf strings;        // of all symbols, each with its NUL
	FM_VEC(uint32_t) string_offs; // by function
};
void fm_perf_names_deinit(struct fm_perf_names *n);

// The function's number. The name is copied.
uint32_t fm_perf_names_add(struct fm_perf_names *n, struct fm_str name);
uint64_t fm_perf_names_text_bytes(const struct fm_perf_names *n);
void fm_perf_names_build_id(const struct fm_perf_names *n, uint8_t ret[FM_PERF_NAMES_ID_BYTES]);
void fm_perf_names_write(const struct fm_perf_names *n, FILE *out);
