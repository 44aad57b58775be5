// SPDX-License-Identifier: Apache-2.0
// Named ranges of code that was made at run time, as JIT compilers tell of them. Pure data; whoever
// adds a range again at the same addresses replaces what was there (a later one wins).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/str.h"

// More than any compiler makes: what is above is left out and counted.
#define FM_CODE_RANGES_MAX (1u << 20)

struct fm_code_line {
	uint64_t addr; // from here on
	uint32_t line;
	uint32_t file; // index into files
};

struct fm_code_range {
	uint64_t start, end;
	uint32_t seq;   // later ones win
	uint32_t owner; // which source told; fm_code_ranges_remove
	struct fm_str name;
	uint32_t first_line_idx, n_lines; // of lines; n_lines 0 = none known
};

struct fm_code_ranges {
	struct fm_arena arena; // names
	FM_VEC(struct fm_code_range) items;
	FM_VEC(struct fm_code_line) lines;
	FM_VEC(struct fm_str) files;
	FM_VEC(uint64_t) max_end; // by item once sorted: the largest end up to it
	bool is_sorted;
	uint32_t next_seq;
	uint32_t n_left_out;
};

void fm_code_ranges_deinit(struct fm_code_ranges *r); // a zeroed struct is empty

// An empty or absurd range (it wraps around, or is above the user's addresses) is left out: NULL.
// The name is copied. The result is good until the next call.
struct fm_code_range *fm_code_ranges_add(struct fm_code_ranges *r, uint64_t start, uint64_t size, struct fm_str name,
					 uint32_t owner);
// Lines of the range that was added last; addresses in any order.
void fm_code_ranges_add_line(struct fm_code_ranges *r, uint64_t addr, uint32_t line, struct fm_str file);
// Forgets what an owner told.
void fm_code_ranges_remove(struct fm_code_ranges *r, uint32_t owner);

// The latest range that holds the address, or NULL. Good until the next change.
const struct fm_code_range *fm_code_ranges_find(struct fm_code_ranges *r, uint64_t addr);
// Its line and file at the address; 0 when it has none.
uint32_t fm_code_ranges_line(const struct fm_code_ranges *r, const struct fm_code_range *range, uint64_t addr,
			     struct fm_str *ret_file);
