// SPDX-License-Identifier: Apache-2.0
#include "image/cfa_section.h"

#include <dwarf.h>

#include "base/compiler.h"
#include "base/cursor.h"

// x86-64 has numbers up to 130 (the psABI's table of DWARF registers).
#define MAX_REGISTER 255u
// libdw runs a program from its beginning for each question, and every state that one remembers is
// a copy of all registers. The longest known, a bytecode interpreter's, has some ten thousand
// bytes; compilers remember one or two states at a time.
#define MAX_BYTES (256u << 10)
#define MAX_REMEMBERED 64u

// Operands: r register, n number, b block, 1 2 4 8 bytes. NULL: none known.
static const char *operands_of(uint8_t op)
{
	static const char *const operands[] = {
		[DW_CFA_nop] = "",
		[DW_CFA_set_loc] = "8",
		[DW_CFA_advance_loc1] = "1",
		[DW_CFA_advance_loc2] = "2",
		[DW_CFA_advance_loc4] = "4",
		[DW_CFA_offset_extended] = "rn",
		[DW_CFA_restore_extended] = "r",
		[DW_CFA_undefined] = "r",
		[DW_CFA_same_value] = "r",
		[DW_CFA_register] = "rr",
		[DW_CFA_remember_state] = "",
		[DW_CFA_restore_state] = "",
		[DW_CFA_def_cfa] = "rn",
		[DW_CFA_def_cfa_register] = "r",
		[DW_CFA_def_cfa_offset] = "n",
		[DW_CFA_def_cfa_expression] = "b",
		[DW_CFA_expression] = "rb",
		[DW_CFA_offset_extended_sf] = "rn",
		[DW_CFA_def_cfa_sf] = "rn",
		[DW_CFA_def_cfa_offset_sf] = "n",
		[DW_CFA_val_offset] = "rn",
		[DW_CFA_val_offset_sf] = "rn",
		[DW_CFA_val_expression] = "rb",
		[DW_CFA_GNU_window_save] = "",
		[DW_CFA_GNU_args_size] = "n",
		[DW_CFA_GNU_negative_offset_extended] = "rn",
	};
	return op < FM_ARRAY_LEN(operands) ? operands[op] : NULL;
}

bool fm_cfa_program_is_sane(const uint8_t *start, const uint8_t *end)
{
	struct fm_cursor c = fm_cursor_over(start, (size_t)(end - start));
	unsigned n_remembered = 0;
	if (fm_cursor_left(&c) > MAX_BYTES)
		return false;
	while (fm_cursor_left(&c)) {
		uint8_t op = fm_cursor_u8(&c), high = op & 0xc0;
		const char *operands = high == DW_CFA_offset ? "n" : high ? "" : operands_of(op);
		for (; operands && *operands && !c.err; operands++) {
			uint64_t value =
				*operands == 'r' || *operands == 'n' || *operands == 'b' ? fm_cursor_varint(&c) : 0;
			if (*operands == 'r' && value > MAX_REGISTER)
				return false;
			if (*operands == 'b')
				fm_cursor_bytes(&c, value);
			else if (*operands >= '1' && *operands <= '8')
				fm_cursor_bytes(&c, (uint64_t)(*operands - '0'));
		}
		if (!operands || c.err)
			return false;
		if (op == DW_CFA_remember_state && ++n_remembered > MAX_REMEMBERED)
			return false;
		if (op == DW_CFA_restore_state && n_remembered)
			n_remembered--;
	}
	return true;
}
