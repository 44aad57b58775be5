// SPDX-License-Identifier: Apache-2.0
// What the Python objects are that a program does not give back. Types are read from beside the
// running process, for a few hundred blocks a second that have grown old; nothing is kept alive by
// this, and nothing in the process is stopped.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "format/writer.h"

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
