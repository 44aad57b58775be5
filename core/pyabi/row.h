// SPDX-License-Identifier: Apache-2.0
// What must be known of one CPython version to walk its frames: plain offsets. Read by sigsafe at
// signal time, so every field is plain data. Filled by pyabi/rows.c or from _Py_DebugOffsets.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum fm_py_frames {
	FM_PY_FRAMES_OBJECTS = 1,        // 3.8, 3.9: tstate->frame, PyFrameObject chain, one evaluator call each
	FM_PY_FRAMES_OBJECTS_CFRAME = 2, // 3.10: the same, and a CFrame on the C stack per evaluator call
	FM_PY_FRAMES_ENTRY_FLAG = 3,     // 3.11: tstate->cframe->current_frame; is_entry ends an evaluator call's run
	FM_PY_FRAMES_SHIM_CFRAME = 4,    // 3.12: as 3.11, but a shim frame on the C stack ends the run
	// 3.13 and later: tstate->current_frame; shim frames on the C stack. From 3.15 the
	// outermost frame of a thread links to one more shim, which lies inside the thread state
	// and not on the C stack.
	FM_PY_FRAMES_SHIM = 5,
};

enum fm_py_lasti {
	FM_PY_LASTI_BYTES = 1,  // 3.8, 3.9: f_lasti counts bytes; -1 = not begun
	FM_PY_LASTI_UNITS = 2,  // 3.10: f_lasti counts 2-byte units; -1 = not begun
	FM_PY_LASTI_POINTER = 3 // 3.11 and later: a pointer into the code's bytes; before them = not begun (3.11, 3.12)
};

// How a code object's line table is coded. The numbers are in profiles: never reuse one.
enum fm_py_lines {
	FM_PY_LINES_NONE = 0,
	FM_PY_LINES_LNOTAB = 1, // 3.6 to 3.9
	FM_PY_LINES_310 = 2,
	FM_PY_LINES_311 = 3,    // 3.11 and later
	FM_PY_LINES_DIRECT = 4, // no interpreter's: a profile that has looked lines up, and has these for offsets
};

// In fm_py_row.first_shim_owner: frames have an owner, but none of its values means a shim (3.11).
#define FM_PY_NO_SHIM_OWNER 0xff

// The structure of the GIL, with the two condition variables and mutexes that threads wait for. The
// same from 3.8 on.
#define FM_PY_GIL_BYTES 208
// Within it, in every version: whose thread state has it (or had it last), and whether any has.
#define FM_PY_GIL_LAST_HOLDER 8u
#define FM_PY_GIL_LOCKED 16u

// Offsets are bytes from the start of the structure named first. 0 in a field that a version lacks.
struct fm_py_row {
	uint8_t minor; // 8 for 3.8
	uint8_t is_free_threaded;
	uint8_t frames;              // enum fm_py_frames
	uint8_t lasti;               // enum fm_py_lasti
	uint8_t line_table;          // enum fm_py_lines
	uint8_t first_shim_owner;    // frames with owner >= this are no Python functions (3.11+)
	uint8_t generator_owner;     // owner of a frame that lives in a generator object (3.11+)
	uint8_t executable_tag_mask; // low bits to clear in the frame's code pointer (3.14+: tagged)

	uint16_t ts_interp, ts_thread_id;
	uint16_t ts_frame;         // FRAMES_OBJECTS*: PyFrameObject *
	uint16_t ts_cframe;        // 3.10 to 3.12
	uint16_t ts_current_frame; // 3.13+
	uint16_t ts_datastack_top; // 3.11, 3.12: frames at or above it are already popped

	uint16_t cframe_current_frame; // 3.11, 3.12 (0 is its true place in 3.12)
	// 3.10 to 3.12. The outermost cframe is a member of the thread state, not on the C stack,
	// and ends the chain:
	// 3.10 leaves its link uninitialised.
	uint16_t cframe_previous;

	uint16_t frame_previous; // or f_back
	// f_code or f_executable (0 is its true place from 3.12 on); may hold None in a shim. From
	// 3.12 on one code is the interpreter's own, pushed under an __init__ that runs in its
	// caller's evaluator call: its co_filename and co_name are the same object and its
	// co_firstlineno is 0. sys._getframe() does not show such frames, nor should a walker.
	uint16_t frame_code;
	uint16_t frame_lasti;      // f_lasti (int32), prev_instr or instr_ptr
	uint16_t frame_is_entry;   // 3.11, one byte
	uint16_t frame_owner;      // 3.11+, one byte
	uint16_t frame_tlbc_index; // 3.14+ free-threaded, int32

	uint16_t code_name, code_qualname, code_filename; // qualname 0 up to 3.10
	uint16_t code_first_line;                         // int32
	uint16_t code_line_table;                         // bytes object
	uint16_t code_flags;                              // 3.11: co_flags
	uint16_t code_bytecode;                           // 3.11+: where the code's own bytes begin
	// 3.14+ free-threaded: pointer to { ssize_t n; char *copy[n]; }. instr_ptr lies in
	// copy[tlbc_index]; copy[0] is code_bytecode itself. Copies may be missing (NULL).
	uint16_t code_tlbc;

	// Who is there: _PyRuntime names the first interpreter, an interpreter its first thread
	// state, each names the next.
	uint32_t runtime_interpreters;
	uint32_t interp_next, interp_threads;
	uint32_t interp_modules;        // sys.modules
	uint16_t ts_next, ts_native_id; // ts_native_id: the kernel's thread id (3.11+), 8 bytes
	uint32_t runtime_current; // up to 3.11: the thread state that holds the GIL; later each thread has its own
	// The GIL: FM_PY_GIL_BYTES within _PyRuntime (up to 3.11), or where the interpreter points
	// to (3.12+).
	uint32_t runtime_gil, interp_gil;

	uint16_t interp_eval_frame;     // 3.8: the frame-evaluation hook, which later ones have functions for
	uint32_t interp_gc_collecting;  // 3.9+: int32
	uint32_t runtime_gc_collecting; // 3.8: int32 in _PyRuntime

	uint16_t object_type;                      // ob_type
	uint16_t str_length, str_state;            // ssize_t, uint32
	uint16_t str_ascii_data, str_compact_data; // where characters begin: ASCII, other compact
	// Within state; kind is the bytes of a character (1, 2, 4).
	uint32_t str_kind_mask, str_kind_shift, str_compact_mask, str_ascii_mask;
	uint16_t bytes_size, bytes_data;
};

// True where evaluator calls leave no mark of their own on the C stack, and pair with Python frames
// one to one: 3.8 and 3.9 have no cframes; on 3.10 a greenlet begins with one that belongs to no
// frame, so that both chains are out of step.
static inline bool fm_py_pairs_by_evaluators(const struct fm_py_row *row, bool is_greenlet)
{
	return row->frames == FM_PY_FRAMES_OBJECTS || (row->frames == FM_PY_FRAMES_OBJECTS_CFRAME && is_greenlet);
}
