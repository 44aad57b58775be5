// SPDX-License-Identifier: Apache-2.0
// The stacks of another process's threads, read from beside: nothing is sent to it, nothing is
// stopped. What is read is right if the thread did not run meanwhile; whoever asks has to make sure
// of that. docs/decisions/0004-waiting-threads-are-read-from-beside.md.
//
// One fm_remote for each process; one thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/str.h"
#include "collect/remote/images.h"
#include "collect/shared/shared.h"

struct fm_remote;
// shared may be NULL: then there are no unwind rows for code made at run time.
struct fm_remote *fm_remote_create(uint32_t pid, struct fm_remote_files *files, const struct fm_shared *shared,
				   uint32_t process_idx);
void fm_remote_destroy(struct fm_remote *r); // NULL is fine

// Says which image is the interpreter, by any address in it; without, it is looked for. hexversion
// is used up to 3.12 only, 0 = not known.
void fm_remote_set_python(struct fm_remote *r, uint64_t addr, uint32_t hexversion);

// Looks for an interpreter. *ret_pc: for fm_remote_set_python.
bool fm_remote_find_python(struct fm_remote *r, uint64_t *ret_pc, uint32_t *ret_hexversion);
bool fm_remote_is_free_threaded(const struct fm_remote *r); // once it is found

// Where a thread is. Only sp and pc are known of one that sleeps; all of one that was stopped.
struct fm_remote_regs {
	uint64_t r[16]; // by DWARF number; 7 is the stack pointer
	uint64_t pc;
	uint32_t known; // bit per register of r
};

// How the thread waits, as /proc/PID/task/TID/syscall tells.
struct fm_remote_call {
	int32_t nr;      // -1 = in no system call
	uint64_t arg[1]; // the first argument
};

struct fm_remote_stack {
	FM_VEC(uint64_t) frames;        // as in wire/wire.h, innermost first; code ids are those of fm_remote_code()
	uint32_t leaf_idx, precise_idx; // frames whose pc is exact; UINT32_MAX = none
	bool is_broken;                 // holds an error frame
	bool waits_for_gil;
	bool has_gil; // with FM_REMOTE_GIL
};
void fm_remote_stack_deinit(struct fm_remote_stack *stack); // a zeroed one is fine

enum fm_remote_want { FM_REMOTE_PYTHON = 1, FM_REMOTE_NATIVE = 2, FM_REMOTE_GIL = 4 };
// Reads the stack of one thread. Always gives one; where it could not be read, error frames say so.
void fm_remote_read_stack(struct fm_remote *r, uint32_t tid, const struct fm_remote_regs *regs,
			  const struct fm_remote_call *call, unsigned want, struct fm_remote_stack *ret);

#define FM_THREAD_NAME_BYTES 64 // longer names are cut
// What Python's threading calls a thread that came at since_ns, by its kernel's id as it knows it
// itself; NULL = nothing, or not known yet. Valid until the next call.
const char *fm_remote_thread_name(struct fm_remote *r, uint32_t tid, uint64_t since_ns);

// What Python's multiprocessing calls the process; NULL = nothing: that is not imported there.
// Valid until the next call.
const char *fm_remote_process_name(struct fm_remote *r);

// The image of a pc; NULL = none.
const struct fm_remote_image *fm_remote_find_image(struct fm_remote *r, uint64_t pc);

// A code object that the last stack named. Programs that make code all the time would fill our
// memory: ids are given anew now and then, and those of older stacks then mean nothing. The
// generation tells.
struct fm_remote_code {
	struct fm_str name, qualname, filename, line_table;
	uint32_t first_line;
	uint8_t line_table_kind; // enum fm_py_lines
};
const struct fm_remote_code *fm_remote_code(const struct fm_remote *r, uint32_t code_id);
uint32_t fm_remote_code_generation(const struct fm_remote *r);
// True when the image is the interpreter's.
bool fm_remote_is_python(const struct fm_remote *r, const struct fm_remote_image *image);

// The local variables of another process's frames, as short texts. Read where the stack was read,
// right after it: the thread must not have run meanwhile. What they hold is read as far as it can
// be told without running any of the program's code: numbers, strings, how long containers are, and
// the type of everything.
#define FM_LOCAL_MAX_CHARS 60u // of a string

struct fm_local {
	uint32_t tid;
	uint32_t frame;   // of the thread's Python frames, 0 = innermost
	const char *text; // "name=value"
	const char *type;
};

struct fm_locals {
	FM_VEC(struct fm_local) items; // of one thread and frame: in the order in which the function has them
	struct fm_arena arena;
};

void fm_locals_init(struct fm_locals *l);
void fm_locals_deinit(struct fm_locals *l);

// Of the stack that fm_remote_read_stack() read last; tid is whose it is to be. Replaces what is
// there of that thread.
void fm_remote_read_locals(struct fm_remote *r, uint32_t tid, struct fm_locals *to);

// A thread that runs, held for the moment in which its stack is read. Not for threads that wait:
// they are read as they are.

// Whether this process may use ptrace at all; filters of containers forbid it.
bool fm_remote_may_stop(void);

// Stops the thread and gives its registers and the system call it is in. False: it is gone, or the
// system refuses (*ret_is_refused); then it is not held.
bool fm_remote_stop(uint32_t pid, uint32_t tid, struct fm_remote_regs *ret_regs, struct fm_remote_call *ret_call,
		    bool *ret_is_refused);
// It waits in a call that may have moved a part of its bytes by now, and would end with those if the
// thread were stopped. Such a call cannot be made again.
bool fm_remote_is_in_transfer(uint32_t pid, uint32_t tid);
// The same in two steps, of which the first waits for nothing: many are stopped in the time of one.
bool fm_remote_stop_begin(uint32_t tid, bool *ret_is_refused);
bool fm_remote_has_stopped(uint32_t tid); // or ended: the second step waits for nothing either
bool fm_remote_stop_end(uint32_t pid, uint32_t tid, struct fm_remote_regs *ret_regs, struct fm_remote_call *ret_call);
// The same of one that is held.
bool fm_remote_registers(uint32_t tid, struct fm_remote_regs *ret_regs, struct fm_remote_call *ret_call);
// The same from struct user_regs_struct, as a core file holds it. False: of another architecture.
bool fm_remote_registers_of(const void *registers, size_t len, struct fm_remote_regs *ret_regs,
			    struct fm_remote_call *ret_call);
// The system call of a held thread, which would begin again, ends as if a signal had come. False: it
// is in none that would. Only where the caller is known to expect that.
bool fm_remote_interrupt_call(uint32_t tid);
// Lets it go on.
void fm_remote_go(uint32_t tid);
