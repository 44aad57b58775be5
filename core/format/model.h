// SPDX-License-Identifier: Apache-2.0
// What a profile is made of, as plain numbers shared by the writer, the reader and everything after
// them. The numbers are in files: never reuse one.
#pragma once

#include <stdint.h>

// What a thread was doing when it was sampled.
enum fm_class {
	FM_CLASS_PYTHON = 0,   // the evaluator, and what it needs for any instruction but a call of C code
	FM_CLASS_NATIVE = 1,   // any other code: libraries, and C functions of the interpreter that Python calls
	FM_CLASS_SYSTEM = 2,   // in the kernel on behalf of the thread
	FM_CLASS_GC = 3,       // the cycle collector was running on this thread
	FM_CLASS_GIL_WAIT = 4, // off CPU, asking for the GIL
	FM_CLASS_WAIT = 5,     // off CPU for any other reason
	FM_N_CLASSES = 6,
};

enum fm_frame_kind {
	FM_FRAME_NATIVE = 0, // ref = image id or FM_NO_ID, value = address to look names up by (see fm_frame)
	FM_FRAME_PYTHON = 1, // ref = code id or FM_NO_ID, value = instruction byte offset + 1; 0 = not started yet
	FM_FRAME_ERROR = 2,  // ref = 0, value = enum fm_stack_error: why the stack ends or has a hole here
	// In no file: ref and value 0. Stands between a Python frame and the stack of a worker
	// (aggregate/tally/workers.h)
	FM_FRAME_WORKERS = 3,
};

#define FM_NO_ID UINT32_MAX
#define FM_ROOT_STACK 0u // stack id 0 is the empty stack; real ones start at 1
// CPU time used while the collector did not run (gap_cpu_ns): from so much on a note of the capture's own tells it.
#define FM_GAP_TOLD_NS 100000000u

// Why a stack is not whole. Stable numbers; the text is what a report shows as the frame's name.
#define FM_STACK_ERRORS(X)                                                     \
	X(FM_STACK_NO_UNWIND_INFO, 1, "no unwind information")                 \
	X(FM_STACK_BAD_CFA, 2, "frame left the thread's stack")                \
	X(FM_STACK_UNREADABLE, 3, "stack memory unreadable")                   \
	X(FM_STACK_BAD_UNWIND_INFO, 4, "damaged unwind information")           \
	X(FM_STACK_TOO_DEEP, 5, "stack deeper than the limit")                 \
	X(FM_STACK_NOT_CODE, 6, "return address outside any code")             \
	X(FM_STACK_PYTHON_TORN, 7, "Python frames unreadable at this instant") \
	X(FM_STACK_PYTHON_UNKNOWN, 8, "unknown Python version")                \
	X(FM_STACK_LOST, 9, "lost in a damaged part of the profile")           \
	X(FM_STACK_CUT, 10, "stack cut: its sample took too long")             \
	X(FM_STACK_NO_ROOM, 11, "no room to walk on this signal stack")

enum fm_stack_error {
#define X(name, number, text) name = number,
	FM_STACK_ERRORS(X)
#undef X
};

// Who gave a block, for allocations; the innermost one asked counts, so that each byte is counted
// once.
enum fm_alloc_domain {
	FM_ALLOC_OBJ = 0,    // PyObject_Malloc and kin
	FM_ALLOC_MEM = 1,    // PyMem_Malloc
	FM_ALLOC_RAW = 2,    // PyMem_RawMalloc
	FM_ALLOC_MALLOC = 3, // malloc and kin, asked for by native code
	FM_ALLOC_MMAP = 4,   // mmap, mremap, sbrk
	FM_ALLOC_COPY = 5,   // no allocation: bytes copied by memcpy and kin
	FM_N_ALLOC_DOMAINS = 6,
};

static inline int fm_alloc_is_python(unsigned domain)
{
	return domain <= FM_ALLOC_RAW;
}

// What a trace is made of, in the order it happened on one thread.
enum fm_zone_op {
	FM_ZONE_ENTER = 0,   // ref: code (FM_NO_ID = not known). A function begins
	FM_ZONE_RESUME = 1,  // ref: code. A generator or coroutine goes on: opens like ENTER, but is no call
	FM_ZONE_LEAVE = 2,   // the innermost open one ends: returns, yields, raises
	FM_ZONE_BEGIN = 3,   // ref: trace name. A zone, or a call of a function that is not Python's
	FM_ZONE_LINE = 4,    // ref: line number. The innermost function comes to it
	FM_ZONE_MARK = 5,    // ref: trace name
	FM_ZONE_COUNTER = 6, // ref: trace name, value
	FM_ZONE_NOTE = 7,    // ref: enum fm_zone_note
};

enum fm_zone_note {
	FM_ZONE_ON = 0,   // a traced region begins on this thread
	FM_ZONE_OFF = 1,  // it ends, and with it everything that is open
	FM_ZONE_LOST = 2, // value: so many events are missing here; what follows fits together again
};

enum fm_trace_name_kind {
	FM_NAME_FUNCTION = 1, // a callable that is not Python code
	FM_NAME_ZONE = 2,
	FM_NAME_MARK = 3,
	FM_NAME_COUNTER = 4,
};

enum fm_image_flags {
	FM_IMAGE_IS_PYTHON = 1, // the interpreter itself: its native frames are plumbing, folded by default
	FM_IMAGE_IS_VDSO = 2,
	FM_IMAGE_IS_MAIN = 4,   // the program's executable
	FM_IMAGE_IS_KERNEL = 8, // no file: a frame's value is the number of the system call that the thread was in
	FM_IMAGE_IS_JIT = 16,   // no file: code made at run time by one process; a frame's value is its address there
	FM_IMAGE_IS_KERNEL_CODE = 32, // no file: the kernel's functions; a frame's value is an address in the kernel
	FM_IMAGE_IS_ELSEWHERE =
		64, // its path is one of another root, a container's: what lies there here is another file
	FM_IMAGE_IS_NAMED =
		128, // no file: all that is known are names; a frame's value is a number that its symbol record names
	FM_IMAGE_HAS_NO_FILE = FM_IMAGE_IS_KERNEL | FM_IMAGE_IS_JIT | FM_IMAGE_IS_KERNEL_CODE,
};
