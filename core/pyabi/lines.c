// SPDX-License-Identifier: Apache-2.0
#include "pyabi/lines.h"

// All sums are made in uint32_t: wrapping is defined there, so damaged tables give a wrong line and
// not undefined behaviour. CPython's own line numbers are ints; what leaves that range is no line.
static uint32_t line_or_none(uint32_t line)
{
	return line > INT32_MAX ? 0 : line;
}

// 3.6 to 3.9, Objects/lnotab_notes.txt: pairs (unsigned bytes forward, signed lines forward). A
// pair's line holds from its address on, so the search ends at the first address beyond the wanted
// one.
static uint32_t line_by_lnotab(const uint8_t *p, const uint8_t *end, uint32_t line, uint32_t instr_off)
{
	uint64_t addr = 0;
	for (; end - p >= 2; p += 2) {
		addr += p[0];
		if (addr > instr_off)
			break;
		line += (uint32_t)(int8_t)p[1];
	}
	return line_or_none(line);
}

#define NO_LINE_310 (-128)

// 3.10, Objects/lnotab_notes.txt: pairs (bytes covered, signed lines forward), where -128 means
// "these bytes have no line" and moves nothing.
static uint32_t line_by_310(const uint8_t *p, const uint8_t *end, uint32_t line, uint32_t instr_off)
{
	uint64_t covered = 0;
	for (; end - p >= 2; p += 2) {
		int8_t delta = (int8_t)p[1];
		covered += p[0];
		if (delta != NO_LINE_310)
			line += (uint32_t)delta;
		if (covered > instr_off)
			return delta == NO_LINE_310 ? 0 : line_or_none(line);
	}
	return line_or_none(line);
}

// 3.11 and later, Objects/locations.md (InternalDocs/code_objects.md). Every entry begins with the
// only byte that has bit 7 set:
//   1 c c c c n n n    cccc = form, nnn + 1 = code units covered (2 bytes each, inline caches included)
enum location_form {
	FORM_ONE_LINE_0 = 10, // below it: short forms, same line; then one form for each of +0, +1, +2 lines
	FORM_NO_COLUMNS = 13, // a signed varint of lines, nothing else
	FORM_LONG = 14,       // a signed varint of lines, then end line and columns
	FORM_NONE = 15,       // no location at all
};

// Groups of 6 bits, lowest first, bit 6 = more follow; of the result, bit 0 is the sign.
static uint32_t read_svarint(const uint8_t *p, const uint8_t *end)
{
	uint32_t value = 0;
	for (unsigned shift = 0; p < end && shift < 32; shift += 6) {
		uint8_t byte = *p++;
		value |= (uint32_t)(byte & 0x3f) << shift;
		if (!(byte & 0x40))
			break;
	}
	return value & 1 ? 0 - (value >> 1) : value >> 1;
}

static uint32_t line_by_311(const uint8_t *p, const uint8_t *end, uint32_t line, uint32_t instr_off)
{
	uint64_t covered = 0;
	while (p < end) {
		uint8_t head = *p++;
		// Columns and end lines are not read but passed over here: none of their bytes has
		// bit 7.
		if (!(head & 0x80))
			continue;
		unsigned form = head >> 3 & 15;
		if (form == FORM_NO_COLUMNS || form == FORM_LONG)
			line += read_svarint(p, end);
		else if (form >= FORM_ONE_LINE_0 && form != FORM_NONE)
			line += form - FORM_ONE_LINE_0;
		covered += 2 * ((head & 7) + 1);
		if (covered > instr_off)
			return form == FORM_NONE ? 0 : line_or_none(line);
	}
	return line_or_none(line);
}

uint32_t fm_pyabi_line(enum fm_py_lines kind, const uint8_t *table, size_t len, uint32_t first_line, uint32_t instr_off)
{
	const uint8_t *end = table + len;
	switch (kind) {
	case FM_PY_LINES_LNOTAB:
		return line_by_lnotab(table, end, first_line, instr_off);
	case FM_PY_LINES_310:
		return line_by_310(table, end, first_line, instr_off);
	case FM_PY_LINES_311:
		return line_by_311(table, end, first_line, instr_off);
	case FM_PY_LINES_DIRECT: // line 1 is offset 0
		return line_or_none(instr_off + 1);
	case FM_PY_LINES_NONE:
		break;
	}
	return 0;
}
