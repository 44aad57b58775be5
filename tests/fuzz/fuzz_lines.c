// SPDX-License-Identifier: Apache-2.0
// Line tables of any bytes. Input: kind, 4 bytes first line, 4 bytes instruction offset, the table.
#include "fuzz.h"

#include "pyabi/lines.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint32_t first_line, instr_off;
	if (size < 9)
		return 0;
	memcpy(&first_line, data + 1, 4);
	memcpy(&instr_off, data + 5, 4);
	enum fm_py_lines kind = (enum fm_py_lines)data[0];
	uint32_t line = fm_pyabi_line(kind, data + 9, size - 9, first_line, instr_off);
	FUZZ_CHECK(line <= INT32_MAX);
	FUZZ_CHECK((kind >= FM_PY_LINES_LNOTAB && kind <= FM_PY_LINES_DIRECT) || line == 0);
	// Past the end every answer is the same one: the last line known.
	uint32_t last = fm_pyabi_line(kind, data + 9, size - 9, first_line, UINT32_MAX);
	if (size < 1 << 20)
		FUZZ_CHECK(fm_pyabi_line(kind, data + 9, size - 9, first_line, UINT32_MAX - 1) == last);
	return 0;
}
