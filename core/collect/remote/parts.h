// SPDX-License-Identifier: Apache-2.0
// Between the parts of the remote reader.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "collect/remote/remote.h"
#include "pyabi/objects.h"
#include "pyabi/row.h"
#include "wire/merge.h"

// Memory of another process, a page at a time and each page once: what is read in one look belongs
// to one instant as nearly as can be, and a stack's worth of small reads costs a few system calls.
#define FM_REMOTE_PAGE_BYTES 4096u

struct fm_remote_memory;
struct fm_core;
struct fm_remote_memory *fm_remote_memory_create(struct fm_core *core); // NULL: of processes that run
void fm_remote_memory_destroy(struct fm_remote_memory *m);              // NULL is fine

// Begins a look at a process: forgets all pages.
void fm_remote_memory_begin(struct fm_remote_memory *m, uint32_t pid);
// Reads pages from addr on in one call, as far as they are there.
void fm_remote_memory_fetch(struct fm_remote_memory *m, uint64_t addr, size_t n_pages);
// All of it or nothing.
bool fm_remote_read(struct fm_remote_memory *m, uint64_t addr, void *to, size_t len);

static inline bool fm_remote_u64(struct fm_remote_memory *m, uint64_t addr, uint64_t *ret)
{
	return fm_remote_read(m, addr, ret, sizeof(*ret));
}

static inline bool fm_remote_u32(struct fm_remote_memory *m, uint64_t addr, uint32_t *ret)
{
	return fm_remote_read(m, addr, ret, sizeof(*ret));
}

static inline bool fm_remote_u8(struct fm_remote_memory *m, uint64_t addr, uint8_t *ret)
{
	return fm_remote_read(m, addr, ret, sizeof(*ret));
}

// Deeper stacks keep their inner end, as in the agent.
#define FM_REMOTE_MAX_FRAMES 32768
// More interpreters and thread states than this are a chain that bites its tail.
#define FM_REMOTE_MAX_CHAIN 100000u

struct fm_remote_python {
	enum { FM_REMOTE_NOT_LOOKED, FM_REMOTE_NO_PYTHON, FM_REMOTE_HAS_PYTHON } state;
	uint64_t looked_ns;
	uint64_t addr; // in its image, as told
	uint32_t hexversion;
	struct fm_py_row row;
	uint64_t runtime, code_type;
	uint64_t image_start, image_end;
	struct fm_evaluator evaluator;
};

struct remote_code_entry {
	struct fm_remote_code code;
	uint32_t print; // tells apart what is at one address in turn
};

struct fm_remote_name {
	uint32_t tid; // as the thread knows itself
	char text[FM_THREAD_NAME_BYTES];
};

struct fm_remote {
	uint32_t pid;
	const struct fm_shared *shared;
	uint32_t process_idx;
	struct fm_remote_memory *memory; // lent by the files
	struct fm_remote_images *images;
	struct fm_remote_python python;
	struct fm_arena arena;
	struct fm_map code_ids; // address -> index of codes + 1
	FM_VEC(struct remote_code_entry) codes;
	uint32_t code_generation;
	struct fm_map states; // tid -> thread state
	FM_VEC(struct fm_remote_name) names;
	uint64_t names_ns;        // when they were read
	uint64_t threading;       // the module; 0 = not found yet
	uint64_t multiprocessing; // the same of multiprocessing.process
	char process_name[FM_THREAD_NAME_BYTES];
	uint32_t max_frames, max_chain; // as above, less in tests

	// One stack at a time.
	FM_VEC(struct fm_native_frame) native;
	FM_VEC(uint64_t) frames;      // Python
	FM_VEC(uint64_t) frame_addrs; // where they lie
	FM_VEC(struct fm_python_run) runs;
	uint32_t n_steps; // along the chain of Python frames
	uint64_t native_sp;
	uint32_t precise_native;             // index of a frame below a signal frame; UINT32_MAX = none
	uint32_t native_error, python_error; // enum fm_stack_error or 0
	bool is_greenlet;                    // the native stack ends where a greenlet began
};

// fm_py_reader of another process's memory, a struct fm_remote_memory.
static inline bool fm_remote_py_read(void *memory, uint64_t addr, void *to, size_t n)
{
	return fm_remote_read(memory, addr, to, n);
}

// Fills native, native_sp, precise_native, native_error and is_greenlet; frames and runs are there
// before.
void fm_remote_unwind(struct fm_remote *r, const struct fm_remote_regs *regs);

// True for the i-th native frame when it is a call of Python's evaluator.
bool fm_remote_is_evaluator(const struct fm_remote *r, size_t i);

// Finds the interpreter, if there is one. True when there is.
bool fm_remote_find_interpreter(struct fm_remote *r);
// The first interpreter, which is the last of the list. 0 = none.
uint64_t fm_remote_main_interpreter(struct fm_remote *r);
// True when it is among that one's thread states.
bool fm_remote_has_state(struct fm_remote *r, uint64_t state);
// Calls each() for the main interpreter's thread states until it says false. False: it did, or they
// could not all be read.
typedef bool (*fm_remote_state_fn)(void *ctx, uint64_t state);
bool fm_remote_each_state(struct fm_remote *r, fm_remote_state_fn each, void *ctx);
// The thread's state; 0 = it has none.
uint64_t fm_remote_thread_state(struct fm_remote *r, uint32_t tid);
// The one of its states whose code the thread runs, its stack pointer being sp, where there is more
// than one interpreter; else own.
uint64_t fm_remote_state_on_stack(struct fm_remote *r, uint32_t tid, uint64_t own, uint64_t sp);
// Fills frames, runs and python_error.
void fm_remote_python_walk(struct fm_remote *r, uint64_t thread_state);
// True when the address is in the GIL of the thread's interpreter.
bool fm_remote_is_gil(struct fm_remote *r, uint64_t thread_state, uint64_t addr);
// True when the thread has it.
bool fm_remote_has_gil(struct fm_remote *r, uint64_t thread_state);
// A string as UTF-8, cut at max_chars; to has room for four bytes each. Returns the bytes; 0 when
// it is no string.
uint32_t fm_remote_text(struct fm_remote *r, uint64_t object, uint32_t max_chars, uint8_t *to);
// Drops all code objects when there are too many.
void fm_remote_limit_codes(struct fm_remote *r);
// The id of a code object, copied at first sight. 0 = it is none; UINT32_MAX = the interpreter's
// own helper, no function.
uint32_t fm_remote_code_id(struct fm_remote *r, uint64_t addr);
// From native, frames and runs to ret.
void fm_remote_merge(struct fm_remote *r, int32_t syscall_nr, struct fm_remote_stack *ret);

// x86_registers.c: whether this is a CPU whose registers are known here.
extern const bool fm_remote_knows_registers;
// As fm_remote_registers, of a thread that has just stopped for us. A system call that this cut short
// is made again when it goes on.
bool fm_remote_registers_stopped(uint32_t tid, struct fm_remote_regs *ret_regs, struct fm_remote_call *ret_call);
