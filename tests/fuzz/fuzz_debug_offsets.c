// SPDX-License-Identifier: Apache-2.0
// The start of _PyRuntime, of any bytes: no crash, and what is accepted is a row that the validator
// accepts too.
#include "fuzz.h"

#include "pyabi/pyabi.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fm_py_row row;
	uint32_t hexversion = 0;
	memset(&row, 0xee, sizeof(row));
	if (fm_pyabi_row_from_debug_offsets(data, size, &row, &hexversion)) {
		for (size_t i = 0; i < sizeof(row); i++)
			FUZZ_CHECK(((const uint8_t *)&row)[i] == 0xee); // untouched on failure
		return 0;
	}
	FUZZ_CHECK(fm_pyabi_has_debug_offsets(data, size));
	FUZZ_CHECK(fm_pyabi_row_validate(&row) == FM_OK);
	FUZZ_CHECK(row.minor == (hexversion >> 16 & 0xff));
	FUZZ_CHECK(row.frame_previous != row.frame_code && row.code_name != row.code_filename);
	return 0;
}
