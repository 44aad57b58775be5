// SPDX-License-Identifier: Apache-2.0
// What a CPython's own headers say, in the words of print_row: compiled by tests/e2e/test_pyabi.py
// against each Python found. "header_offsets" prints fields; "header_offsets table" writes that
// Python's initial _Py_DebugOffsets (3.13+). Built with -DPy_GIL_DISABLED it speaks for the
// free-threaded build of the same release.
#define Py_BUILD_CORE 1
#include <Python.h>

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <frameobject.h>
#if PY_VERSION_HEX >= 0x03090000
#include "internal/pycore_interp.h"
#include "internal/pycore_runtime.h"
#endif
#include "internal/pycore_pystate.h"
#if PY_VERSION_HEX >= 0x030b0000
#include "internal/pycore_frame.h"
#endif
#if PY_VERSION_HEX >= 0x030d0000
#include "internal/pycore_gc.h"
#endif
#if PY_VERSION_HEX >= 0x030e0000
#include "internal/pycore_debug_offsets.h"
#include "internal/pycore_interpframe_structs.h"
#include "internal/pycore_stackref.h"
static const _Py_DebugOffsets table = _Py_DebugOffsets_INIT("xdebugpy");
#define TABLE table
#elif PY_VERSION_HEX >= 0x030d0000
// 3.13 has the table's values only inside those of the whole runtime, which name functions of the
// interpreter: this program is linked with unresolved symbols, and calls none.
#include "internal/pycore_ceval.h"
#include "internal/pycore_runtime_init.h"
static _PyRuntimeState runtime = _PyRuntimeState_INIT(runtime, "xdebugpy");
#define TABLE runtime.debug_offsets
#endif

#define P(name, type, field) printf(#name " %zu\n", offsetof(type, field))
#define V(name, value) printf(#name " %zu\n", (size_t)(value))

#if PY_VERSION_HEX < 0x030b0000
typedef PyFrameObject frame_type;
#define FRAME_PREVIOUS f_back
#define FRAME_CODE f_code
#define FRAME_LASTI f_lasti
#elif PY_VERSION_HEX < 0x030d0000
typedef _PyInterpreterFrame frame_type;
#define FRAME_PREVIOUS previous
#define FRAME_CODE f_code
#define FRAME_LASTI prev_instr
#else
typedef _PyInterpreterFrame frame_type;
#define FRAME_PREVIOUS previous
#define FRAME_CODE f_executable
#define FRAME_LASTI instr_ptr
#endif

#if PY_VERSION_HEX < 0x030a0000
#define LINE_TABLE co_lnotab
#else
#define LINE_TABLE co_linetable
#endif

static void print_str_state(void)
{
	PyASCIIObject str;
	unsigned bits;
#define STATE_BITS(name, member, value)                                             \
	memset(&str, 0, sizeof(str));                                               \
	str.state.member = value;                                                   \
	memcpy(&bits, (char *)&str + offsetof(PyASCIIObject, state), sizeof(bits)); \
	V(name, bits)
	STATE_BITS(str_kind_mask, kind, 7);
	V(str_kind_shift, __builtin_ctz(bits));
	STATE_BITS(str_compact_mask, compact, 1);
	STATE_BITS(str_ascii_mask, ascii, 1);
}

int main(int argc, char **argv)
{
#if PY_VERSION_HEX >= 0x030d0000
	if (argc > 1)
		return fwrite(&TABLE, sizeof(TABLE), 1, stdout) != 1;
#endif
	(void)argc, (void)argv;
	V(minor, PY_MINOR_VERSION);
#ifdef Py_GIL_DISABLED
	V(is_free_threaded, 1);
#endif
	P(ts_interp, PyThreadState, interp);
	P(ts_thread_id, PyThreadState, thread_id);
#if PY_VERSION_HEX < 0x030b0000
	P(ts_frame, PyThreadState, frame);
#elif PY_VERSION_HEX >= 0x030d0000
	P(ts_current_frame, PyThreadState, current_frame);
#else
	P(ts_datastack_top, PyThreadState, datastack_top);
	P(cframe_current_frame, _PyCFrame, current_frame);
	P(cframe_previous, _PyCFrame, previous);
#endif
#if PY_VERSION_HEX >= 0x030a0000 && PY_VERSION_HEX < 0x030d0000
	P(ts_cframe, PyThreadState, cframe);
#endif
#if PY_VERSION_HEX >= 0x030a0000 && PY_VERSION_HEX < 0x030b0000
	P(cframe_previous, CFrame, previous);
#endif
	P(runtime_interpreters, _PyRuntimeState, interpreters.head);
	P(ts_next, PyThreadState, next);
#if PY_VERSION_HEX < 0x03090000
	P(interp_next, struct _is, next);
	P(interp_threads, struct _is, tstate_head);
	P(interp_modules, struct _is, modules);
#else
	P(interp_next, PyInterpreterState, next);
#if PY_VERSION_HEX < 0x030c0000
	P(interp_modules, PyInterpreterState, modules);
#else
	P(interp_modules, PyInterpreterState, imports.modules);
#endif
#if PY_VERSION_HEX < 0x030b0000
	P(interp_threads, PyInterpreterState, tstate_head);
#else
	P(interp_threads, PyInterpreterState, threads.head);
	P(ts_native_id, PyThreadState, native_thread_id);
#endif
#endif
#if PY_VERSION_HEX < 0x030c0000
	P(runtime_gil, _PyRuntimeState, ceval.gil);
	P(runtime_current, _PyRuntimeState, gilstate.tstate_current);
#else
	P(interp_gil, PyInterpreterState, ceval.gil);
#endif
	P(frame_previous, frame_type, FRAME_PREVIOUS);
	P(frame_code, frame_type, FRAME_CODE);
	P(frame_lasti, frame_type, FRAME_LASTI);
#if PY_VERSION_HEX >= 0x030b0000
	P(frame_owner, frame_type, owner);
	V(generator_owner, FRAME_OWNED_BY_GENERATOR);
	P(code_qualname, PyCodeObject, co_qualname);
	P(code_bytecode, PyCodeObject, co_code_adaptive);
#endif
#if PY_VERSION_HEX >= 0x030b0000 && PY_VERSION_HEX < 0x030c0000
	P(frame_is_entry, frame_type, is_entry);
	P(code_flags, PyCodeObject, co_flags);
#endif
#if PY_VERSION_HEX >= 0x030e0000
	V(first_shim_owner, FRAME_OWNED_BY_INTERPRETER);
	V(executable_tag_mask, Py_INT_TAG); // the widest tag there is, also where Py_TAG_BITS is smaller
#elif PY_VERSION_HEX >= 0x030c0000
	V(first_shim_owner, FRAME_OWNED_BY_CSTACK);
	V(executable_tag_mask, 0);
#endif
#if PY_VERSION_HEX >= 0x030e0000 && defined(Py_GIL_DISABLED)
	P(frame_tlbc_index, frame_type, tlbc_index);
	P(code_tlbc, PyCodeObject, co_tlbc);
#endif
	P(code_name, PyCodeObject, co_name);
	P(code_filename, PyCodeObject, co_filename);
	P(code_first_line, PyCodeObject, co_firstlineno);
	P(code_line_table, PyCodeObject, LINE_TABLE);
#if PY_VERSION_HEX >= 0x03090000
	P(interp_gc_collecting, PyInterpreterState, gc.collecting);
#else
	P(runtime_gc_collecting, _PyRuntimeState, gc.collecting);
	P(interp_eval_frame, PyInterpreterState, eval_frame);
#endif
	P(object_type, PyObject, ob_type);
	P(str_length, PyASCIIObject, length);
	P(str_state, PyASCIIObject, state);
	V(str_ascii_data, sizeof(PyASCIIObject));
	V(str_compact_data, sizeof(PyCompactUnicodeObject));
	print_str_state();
	P(bytes_size, PyVarObject, ob_size);
	P(bytes_data, PyBytesObject, ob_sval);
	return 0;
}
