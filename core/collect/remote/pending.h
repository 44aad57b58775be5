// SPDX-License-Identifier: Apache-2.0
// A call that another process's Python is left to make, before 3.14: an entry in the ring that
// Py_AddPendingCall() fills, written from outside. The interpreter makes it where it would run any
// Python code: with the GIL, between two instructions. The entry names PyRun_SimpleString() and a
// line of Python, which lies where nobody has anything.
// docs/decisions/0014-how-the-agent-gets-in.md
//
// All functions but those to find, prepare and clear want all threads of the
// process held.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "pyabi/pending.h"

struct fm_remote;

struct fm_remote_pending {
	struct fm_py_pending at;
	uint64_t function;                 // PyRun_SimpleString
	uint64_t lock_wait, lock_wait_end; // the code of PyThread_acquire_lock_timed; 0 = not known
	uint64_t list_type;                // PyList_Type
	uint64_t room;                     // where the line goes
	uint32_t room_bytes;
	uint8_t room_was[4096]; // what is there when nothing of ours is
	bool is_written;        // something of ours is in the room
	bool is_left_over;      // it was found there: of a Fathom that was killed
};

// Finds all of it, and looks whether it is what it should be. is_sole: a line that lies in the room
// is of a Fathom that was killed. FM_E_UNSUPPORTED: diag says why not.
FM_MUST_CHECK enum fm_err fm_remote_pending_find(struct fm_remote *r, uint32_t hexversion, bool is_sole,
						 struct fm_remote_pending *p, struct fm_diag *diag);

// A few lines of Python that run the script of this path, written to be compiled in no time: what a
// signal's handler raises before they have begun nobody of ours can catch. What it raises later is
// handed to the script as e. Their length with a 0 at the end; 0 = they do not fit.
uint32_t fm_remote_pending_lines(const char *path, char *to, uint32_t cap);

// Leaves a call that runs the script of this path. False: not now, or never (the path is too long,
// the interpreter ends, it has audit hooks by now).
bool fm_remote_pending_push(struct fm_remote *r, struct fm_remote_pending *p, const char *path);
// The one thread that makes such calls; 0 = any of them, or none that is known.
uint32_t fm_remote_pending_thread(struct fm_remote *r, const struct fm_remote_pending *p);
// False: it has begun, or is over.
bool fm_remote_pending_take_back(struct fm_remote *r, struct fm_remote_pending *p);
// Nobody will read the line any more: the room is again as it was.
void fm_remote_pending_clear(struct fm_remote *r, struct fm_remote_pending *p);

// Before threads are held: reads what is slow to read, where the main thread waits.
void fm_remote_pending_prepare(struct fm_remote *r, const struct fm_remote_pending *p);
// The main thread, where it waits for a lock of Python's, is let out of the wait to look whether
// there are calls to make; then it waits on. It is the one system call that is known to bear that:
// PyThread_acquire_lock_timed() expects to be interrupted, and its caller makes pending calls then.
// False: it does not wait like that.
bool fm_remote_pending_wake_main_thread(struct fm_remote *r, const struct fm_remote_pending *p);
