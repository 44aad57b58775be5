// SPDX-License-Identifier: Apache-2.0
// What is learnt of live blocks from beside the running process: what the objects in them are, and
// how much of the large ones was ever written. Nothing is kept alive by this, and nothing is stopped.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "collect/shared/shared.h"
#include "format/writer.h"

// What the Python objects are that a program does not give back. Types are read from beside the
// running process, for a few hundred blocks a second that have grown old; nothing is kept alive by
// this, and nothing in the process is stopped.
#define FM_TYPE_NAME_BYTES 64

struct fm_survivors;
struct fm_survivors *fm_survivors_create(uint32_t pid, uint32_t process_id, struct fm_writer *writer);
void fm_survivors_destroy(struct fm_survivors *s); // NULL is fine

// A block of Python's object allocator was born; a block died.
void fm_survivors_born(struct fm_survivors *s, uint64_t id, uint64_t addr, uint64_t size, uint64_t time_ns);
void fm_survivors_died(struct fm_survivors *s, uint64_t id);
// Once in a while: reads and writes types when it is time. is_free_threaded: of the process's
// Python.
void fm_survivors_poll(struct fm_survivors *s, bool is_free_threaded, uint64_t now_ns);

// The type of the object in a block of `size` bytes, NUL-terminated. False: what lies there is no
// object, as far as can be told, or it cannot be read (*ret_is_refused, may be NULL).
bool fm_survivor_type(uint32_t pid, bool is_free_threaded, uint64_t addr, uint64_t size,
		      char ret_name[static FM_TYPE_NAME_BYTES], bool *ret_is_refused);

// How much of its large blocks a program has really used. The kernel gives memory when it is first
// written: a block that was asked for and never written is an address and no memory. The process's
// page table tells, read from beside; nothing in it is stopped.

// Smaller blocks are not looked at: what they leave unused is little, and they are many.
#define FM_TOUCHED_MIN_BYTES ((uint64_t)1 << 20)

struct fm_touched;
struct fm_touched *fm_touched_create(uint32_t pid, uint32_t process_id, struct fm_shared *shared, uint32_t idx,
				     struct fm_writer *writer); // shared NULL: every end is told
// Of what lives on, writes what is seen now, or was last seen where the process is gone. now_ns: its
// end. Frees; NULL is fine.
void fm_touched_end(struct fm_touched *t, uint64_t now_ns);
// Frees, and writes nothing.
void fm_touched_destroy(struct fm_touched *t);

// A block was born (smaller ones are passed over); a block died.
void fm_touched_born(struct fm_touched *t, uint64_t id, uint64_t addr, uint64_t size, uint64_t time_ns);
void fm_touched_died(struct fm_touched *t, uint64_t id, uint64_t time_ns);
// Once in a while, after the rings were read: looks when it is time.
void fm_touched_look(struct fm_touched *t, uint64_t now_ns);

// A block of size bytes was still being filled when `used` of it were seen, some time before its
// end: how much that will have been by then, if it went on at the fastest pace that was seen of it.
uint64_t fm_touched_by(uint64_t used, uint64_t size, double bytes_ns, uint64_t left_ns);
