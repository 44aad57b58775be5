// SPDX-License-Identifier: Apache-2.0
// The layouts of the releases that do not describe themselves, and of 3.13 in case its own table
// cannot be read.
//
// Linux on 64-bit machines. The numbers are offsetof() over each release's own headers
// (tests/e2e/test_pyabi.py compares them with every Python it finds) and are the same from X.Y.0 to
// the last X.Y.Z, in release and debug builds. Free-threaded builds have other layouts and are read
// from _Py_DebugOffsets only.
#include "pyabi/pyabi.h"

// PyASCIIObject.state, 3.8 to 3.13: interned in bits 0 and 1, then kind, compact, ascii.
#define STR_STATE_BITS .str_kind_mask = 0x1c, .str_kind_shift = 2, .str_compact_mask = 0x20, .str_ascii_mask = 0x40

// Heads of objects with a reference count of one word: every build but the free-threaded ones.
#define OBJECT_HEADS .object_type = 8, .str_length = 16, .str_state = 32, .bytes_size = 16, .bytes_data = 32

// Until 3.11 a string had room for its wchar_t form; 3.12 dropped wstr and wstr_length, so
// characters begin earlier.
#define STR_DATA_WITH_WSTR .str_ascii_data = 48, .str_compact_data = 72
#define STR_DATA .str_ascii_data = 40, .str_compact_data = 56

static const struct fm_py_row rows[] = {
	// 3.13: cframe is gone, the thread state names the current frame. instr_ptr is the
	// instruction being executed (for a caller, its call). f_executable may be None, in shims.
	{
		.minor = 13,
		.frames = FM_PY_FRAMES_SHIM,
		.lasti = FM_PY_LASTI_POINTER,
		.line_table = FM_PY_LINES_311,
		.first_shim_owner = 3,
		.generator_owner = 1,
		.ts_interp = 16,
		.ts_thread_id = 152,
		.ts_current_frame = 72,
		.frame_previous = 8,
		.frame_code = 0,
		.frame_lasti = 56,
		.frame_owner = 70,
		.code_name = 120,
		.code_qualname = 128,
		.code_filename = 112,
		.code_first_line = 68,
		.code_line_table = 136,
		.code_bytecode = 200,
		.runtime_interpreters = 632,
		.interp_next = 7264,
		.interp_threads = 7344,
		.interp_modules = 7656,
		.ts_next = 8,
		.ts_native_id = 160,
		.interp_gil = 16,
		.interp_gc_collecting = 7600,
		STR_STATE_BITS,
		OBJECT_HEADS,
		STR_DATA,
	},
	// 3.12: is_entry is gone. The evaluator pushes a shim frame (owner FRAME_OWNED_BY_CSTACK)
	// that is a local of its own C frame, and the frames above it belong to that call. The GIL
	// and the collector became the interpreter's.
	{
		.minor = 12,
		.frames = FM_PY_FRAMES_SHIM_CFRAME,
		.lasti = FM_PY_LASTI_POINTER,
		.line_table = FM_PY_LINES_311,
		.first_shim_owner = 3,
		.generator_owner = 1,
		.ts_interp = 16,
		.ts_thread_id = 136,
		.ts_cframe = 56,
		.ts_datastack_top = 240,
		.cframe_current_frame = 0,
		.cframe_previous = 8,
		.frame_previous = 8,
		.frame_code = 0,
		.frame_lasti = 56,
		.frame_owner = 70,
		.code_name = 120,
		.code_qualname = 128,
		.code_filename = 112,
		.code_first_line = 68,
		.code_line_table = 136,
		.code_bytecode = 192,
		.runtime_interpreters = 40,
		.interp_threads = 72,
		.interp_modules = 944,
		.ts_next = 8,
		.ts_native_id = 144,
		.interp_gil = 384,
		.interp_gc_collecting = 312,
		STR_STATE_BITS,
		OBJECT_HEADS,
		STR_DATA,
	},
	// 3.11: frames are plain structures in the thread's own stack of chunks; a Python function
	// calling another stays in the same evaluator call, and is_entry marks the frame that call
	// began with. The bytecode lies inside the code object and the frame points into it; line
	// tables carry columns; code objects know their qualified name.
	{
		.minor = 11,
		.frames = FM_PY_FRAMES_ENTRY_FLAG,
		.lasti = FM_PY_LASTI_POINTER,
		.line_table = FM_PY_LINES_311,
		.first_shim_owner = FM_PY_NO_SHIM_OWNER,
		.generator_owner = 1,
		.ts_interp = 16,
		.ts_thread_id = 152,
		.ts_cframe = 56,
		.ts_datastack_top = 304,
		.cframe_current_frame = 8,
		.cframe_previous = 16,
		.frame_previous = 48,
		.frame_code = 32,
		.frame_lasti = 56,
		.frame_is_entry = 68,
		.frame_owner = 69,
		.code_name = 120,
		.code_qualname = 128,
		.code_filename = 112,
		.code_first_line = 72,
		.code_line_table = 136,
		.code_flags = 48,
		.code_bytecode = 184,
		.runtime_interpreters = 40,
		.interp_threads = 16,
		.interp_modules = 888,
		.ts_next = 8,
		.ts_native_id = 160,
		.runtime_current = 576,
		.runtime_gil = 360,
		.interp_gc_collecting = 848,
		STR_STATE_BITS,
		OBJECT_HEADS,
		STR_DATA_WITH_WSTR,
	},
	// 3.10: every evaluator call keeps a CFrame on the C stack (for tracing; it names no Python
	// frame). f_lasti counts code units, and co_lnotab gave way to a table that can say "no
	// line".
	{
		.minor = 10,
		.frames = FM_PY_FRAMES_OBJECTS_CFRAME,
		.lasti = FM_PY_LASTI_UNITS,
		.line_table = FM_PY_LINES_310,
		.ts_interp = 16,
		.ts_thread_id = 176,
		.ts_frame = 24,
		.ts_cframe = 48,
		.cframe_previous = 8,
		.frame_previous = 24,
		.frame_code = 32,
		.frame_lasti = 96,
		.code_name = 112,
		.code_filename = 104,
		.code_first_line = 40,
		.code_line_table = 120,
		.runtime_interpreters = 32,
		.interp_threads = 8,
		.interp_modules = 856,
		.ts_next = 8,
		.runtime_current = 568,
		.runtime_gil = 352,
		.interp_gc_collecting = 816,
		STR_STATE_BITS,
		OBJECT_HEADS,
		STR_DATA_WITH_WSTR,
	},
	// 3.9: the collector's state moved from the runtime into the interpreter.
	{
		.minor = 9,
		.frames = FM_PY_FRAMES_OBJECTS,
		.lasti = FM_PY_LASTI_BYTES,
		.line_table = FM_PY_LINES_LNOTAB,
		.ts_interp = 16,
		.ts_thread_id = 176,
		.ts_frame = 24,
		.frame_previous = 24,
		.frame_code = 32,
		.frame_lasti = 104,
		.code_name = 112,
		.code_filename = 104,
		.code_first_line = 40,
		.code_line_table = 120,
		.runtime_interpreters = 32,
		.interp_threads = 8,
		.interp_modules = 856,
		.ts_next = 8,
		.runtime_current = 568,
		.runtime_gil = 352,
		.interp_gc_collecting = 816,
		STR_STATE_BITS,
		OBJECT_HEADS,
		STR_DATA_WITH_WSTR,
	},
	// 3.8: one collector for the whole process, in _PyRuntime.
	{
		.minor = 8,
		.frames = FM_PY_FRAMES_OBJECTS,
		.lasti = FM_PY_LASTI_BYTES,
		.line_table = FM_PY_LINES_LNOTAB,
		.ts_interp = 16,
		.ts_thread_id = 176,
		.ts_frame = 24,
		.frame_previous = 24,
		.frame_code = 32,
		.frame_lasti = 104,
		.code_name = 112,
		.code_filename = 104,
		.code_first_line = 40,
		.code_line_table = 120,
		.runtime_interpreters = 32,
		.interp_threads = 8,
		.interp_modules = 56,
		.ts_next = 8,
		.runtime_current = 1368,
		.runtime_gil = 1152,
		.interp_eval_frame = 568,
		.runtime_gc_collecting = 544,
		STR_STATE_BITS,
		OBJECT_HEADS,
		STR_DATA_WITH_WSTR,
	},
};

enum fm_err fm_pyabi_row_by_minor(unsigned minor, struct fm_py_row *ret)
{
	for (unsigned i = 0; i < FM_ARRAY_LEN(rows); i++) {
		if (rows[i].minor == minor) {
			*ret = rows[i];
			return FM_OK;
		}
	}
	return FM_E_UNSUPPORTED;
}
