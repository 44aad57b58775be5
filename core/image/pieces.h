// SPDX-License-Identifier: Apache-2.0
// The pieces of a function: runs of addresses of which debug information tells the same. They end
// where a row of the line table begins, and where an inlined call, or a block, begins or ends.
#pragma once

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"

struct fm_piece {
	uint64_t start, end;
};

struct fm_pieces {
	FM_VEC(struct fm_piece) items; // by rising address once fm_pieces_sort() was called
};

void fm_pieces_deinit(struct fm_pieces *p);
// Adds those of a function; has_lines is the entry of the unit with its line table. Of one with
// more than is sane, none.
void fm_pieces_add(struct fm_pieces *p, Dwarf_Die *function, Dwarf_Die *has_lines);
void fm_pieces_sort(struct fm_pieces *p); // of two that overlap, the first stays
bool fm_pieces_have(const struct fm_pieces *p, uint64_t addr);
