// SPDX-License-Identifier: Apache-2.0
// Prints Fathom's row of one CPython, a field a line: "print_row 11" from the table, "print_row -"
// from the first bytes of _PyRuntime on standard input (then the version too). Exit status: the
// fm_err, so that tests see why there is no row.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pyabi/pyabi.h"

int main(int argc, char **argv)
{
	struct fm_py_row row;
	enum fm_err err;
	if (argc != 2)
		return FM_E_USAGE;
	if (strcmp(argv[1], "-") == 0) {
		uint8_t bytes[FM_PY_DEBUG_OFFSETS_BYTES];
		uint32_t hexversion = 0;
		size_t len = fread(bytes, 1, sizeof(bytes), stdin);
		err = fm_pyabi_row_from_debug_offsets(bytes, len, &row, &hexversion);
		fprintf(stderr, "version 0x%08x\n", hexversion);
	} else {
		err = fm_pyabi_row_by_minor((unsigned)atoi(argv[1]), &row);
		if (!err)
			err = fm_pyabi_row_validate(&row);
	}
	if (err) {
		fprintf(stderr, "%s\n", fm_err_text(err));
		return (int)err;
	}
#define P(field) printf(#field " %u\n", (unsigned)row.field)
	P(minor), P(is_free_threaded), P(frames), P(lasti), P(line_table);
	P(first_shim_owner), P(generator_owner), P(executable_tag_mask);
	P(ts_interp), P(ts_thread_id), P(ts_frame), P(ts_cframe), P(ts_current_frame), P(ts_datastack_top);
	P(cframe_current_frame), P(cframe_previous);
	P(frame_previous), P(frame_code), P(frame_lasti), P(frame_is_entry), P(frame_owner), P(frame_tlbc_index);
	P(code_name), P(code_qualname), P(code_filename), P(code_first_line), P(code_line_table);
	P(code_flags), P(code_bytecode), P(code_tlbc);
	P(runtime_interpreters), P(interp_next), P(interp_threads), P(interp_modules), P(ts_next), P(ts_native_id);
	P(runtime_current), P(runtime_gil), P(interp_gil);
	P(interp_eval_frame), P(interp_gc_collecting), P(runtime_gc_collecting);
	P(object_type), P(str_length), P(str_state), P(str_ascii_data), P(str_compact_data);
	P(str_kind_mask), P(str_kind_shift), P(str_compact_mask), P(str_ascii_mask), P(bytes_size), P(bytes_data);
	return 0;
}
