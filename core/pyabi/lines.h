// SPDX-License-Identifier: Apache-2.0
// From an instruction's offset to its source line, for the three line-table formats CPython has
// had. Tables come from captured bytes and are untrusted: any bytes give an answer, never a crash
// or an endless loop.
//
// Pure, as pyabi.h says. One call reads the table once, up to the wanted entry, and passes over
// columns: a caller that asks once for every distinct (code, offset) needs no index.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "pyabi/row.h"

// The line of the instruction at instr_off bytes into the bytecode; 0 when the table says "no
// line", or says a line that no source can have. Offsets past the table's end give the last line
// known. An unknown kind gives 0. A frame that has not begun has no instruction: its line is
// first_line, without asking here.
uint32_t fm_pyabi_line(enum fm_py_lines kind, const uint8_t *table, size_t len, uint32_t first_line,
		       uint32_t instr_off);
