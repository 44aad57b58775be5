// SPDX-License-Identifier: Apache-2.0
// What walkers read of CPython's objects: frames, code objects, strings. The agent reads its own
// process at signal time, the collector another one; what is read and what it means is said here,
// once. Both pass a reader; it is a constant where it is used, and everything here is inlined, so
// every read is a direct call.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "pyabi/row.h"

// Copies n bytes at addr of the interpreter's memory. False: they cannot be read.
typedef bool (*fm_py_reader)(void *memory, uint64_t addr, void *to, size_t n);

// ---- code objects ----

struct fm_py_code {
	uint64_t name, filename, line_table; // objects
	uint32_t first_line;
};

// False: addr does not point to a code object.
static FM_ALWAYS_INLINE bool fm_py_read_code(fm_py_reader read, void *memory, const struct fm_py_row *row,
					     uint64_t code_type, uint64_t addr, struct fm_py_code *ret)
{
	uint64_t type;
	return read(memory, addr + row->object_type, &type, sizeof(type)) && type == code_type &&
	       read(memory, addr + row->code_name, &ret->name, sizeof(ret->name)) &&
	       read(memory, addr + row->code_filename, &ret->filename, sizeof(ret->filename)) &&
	       read(memory, addr + row->code_line_table, &ret->line_table, sizeof(ret->line_table)) &&
	       read(memory, addr + row->code_first_line, &ret->first_line, sizeof(ret->first_line));
}

// From 3.12 on an inlined constructor call has a frame of the interpreter's own under it, whose
// code has one string for both its names and no first line. Tracebacks leave it out, and so do we.
static inline bool fm_py_is_helper_code(const struct fm_py_code *code)
{
	return FM_UNLIKELY(code->name == code->filename && code->first_line == 0);
}

static inline uint64_t fm_py_mix(uint64_t x)
{
	x *= 0x9e3779b97f4a7c15u;
	return x ^ x >> 29;
}

// Code objects are freed and their addresses used again. The parts' addresses and the first line
// tell them apart.
static inline uint32_t fm_py_fingerprint(const struct fm_py_code *code)
{
	return (uint32_t)(fm_py_mix(code->name ^
				    fm_py_mix(code->filename ^ fm_py_mix(code->line_table ^ code->first_line))) >>
			  16);
}

// ---- frames ----

// Of a function's bytecode, one for each thread that has run it at the same time as others.
#define FM_PY_MAX_COPIES 4096u

// Free-threaded 3.14 and later: each thread may run its own copy of a function's bytecode. The
// frame says by number which one, but it is the instruction that lies in just one of them: while a
// generator goes on in another thread, the one word is already new and the other still old.
// UINT64_MAX: in none.
static FM_ALWAYS_INLINE uint64_t fm_py_find_copy(fm_py_reader read, void *memory, const struct fm_py_row *row,
						 uint64_t code, uint32_t number, uint64_t lasti)
{
	uint64_t n_units, array, n_copies, copy = code + row->code_bytecode;
	if (!read(memory, code + row->bytes_size, &n_units, sizeof(n_units))) // the size of any object that has one
		return UINT64_MAX;
	if (lasti - copy < n_units * 2)
		return copy;
	if (!read(memory, code + row->code_tlbc, &array, sizeof(array)) ||
	    !read(memory, array, &n_copies, sizeof(n_copies)))
		return UINT64_MAX;
	if (number < n_copies && read(memory, array + 8 + number * 8ull, &copy, sizeof(copy)) &&
	    lasti - copy < n_units * 2)
		return copy;
	for (uint64_t i = 1; i < n_copies && i < FM_PY_MAX_COPIES; i++)
		if (read(memory, array + 8 + i * 8, &copy, sizeof(copy)) && copy && lasti - copy < n_units * 2)
			return copy;
	return UINT64_MAX;
}

// The code object that a frame executes.
static FM_ALWAYS_INLINE bool fm_py_read_frame_code(fm_py_reader read, void *memory, const struct fm_py_row *row,
						   uint64_t frame, uint64_t *ret)
{
	if (!read(memory, frame + row->frame_code, ret, sizeof(*ret)))
		return false;
	*ret &= ~(uint64_t)row->executable_tag_mask;
	return true;
}

// Where it is in it: the instruction's offset + 1, 0 = not begun. False: it cannot be read.
static FM_ALWAYS_INLINE bool fm_py_read_offset(fm_py_reader read, void *memory, const struct fm_py_row *row,
					       uint64_t frame, uint64_t code, uint64_t *ret)
{
	*ret = 0;
	if (row->lasti == FM_PY_LASTI_POINTER) {
		uint64_t bytecode = code + row->code_bytecode, lasti;
		uint32_t number;
		if (!read(memory, frame + row->frame_lasti, &lasti, sizeof(lasti)))
			return false;
		if (row->code_tlbc) {
			if (!read(memory, frame + row->frame_tlbc_index, &number, sizeof(number)))
				return false;
			bytecode = fm_py_find_copy(read, memory, row, code, number, lasti);
		}
		if (lasti >= bytecode && lasti - bytecode < INT32_MAX)
			*ret = lasti - bytecode + 1;
	} else {
		uint32_t n;
		if (!read(memory, frame + row->frame_lasti, &n, sizeof(n)))
			return false;
		if ((int32_t)n >= 0)
			*ret = (uint64_t)n * (row->lasti == FM_PY_LASTI_UNITS ? 2 : 1) + 1;
	}
	return true;
}

// From 3.11 on. Where an evaluator call's run of frames ends: 3.11 at the frame that entered it,
// from 3.12 on at a shim.
struct fm_py_step {
	uint64_t previous;
	bool is_shim, is_last; // of its run
};

static FM_ALWAYS_INLINE bool fm_py_read_step(fm_py_reader read, void *memory, const struct fm_py_row *row,
					     uint64_t frame, struct fm_py_step *ret)
{
	uint8_t owner, is_entry = 0;
	if (!frame || (frame & 7) ||
	    !read(memory, frame + row->frame_previous, &ret->previous, sizeof(ret->previous)) ||
	    !read(memory, frame + row->frame_owner, &owner, sizeof(owner)) ||
	    (row->frame_is_entry && !read(memory, frame + row->frame_is_entry, &is_entry, sizeof(is_entry))))
		return false;
	ret->is_shim = owner >= row->first_shim_owner;
	ret->is_last = ret->is_shim || is_entry;
	return true;
}

// Thread states are smaller; a cframe inside one is the root that every chain of them ends with.
#define FM_PY_THREAD_STATE_BYTES 2048u

// ---- strings ----

// Longer ones are cut. A line table of 256 KiB belongs to a function of some 100,000 lines.
#define FM_PY_MAX_NAME_CHARS 1024u
#define FM_PY_MAX_FILENAME_CHARS 4096u
#define FM_PY_MAX_LINE_TABLE_BYTES (256u << 10)

struct fm_py_string {
	uint64_t data;
	uint32_t n_chars;
	uint8_t kind; // bytes per character; 0 = nothing there
	bool is_ascii;
};

// Where a string object has its characters. Only compact ones, as all names of code objects are.
static FM_ALWAYS_INLINE void fm_py_open_string(fm_py_reader read, void *memory, const struct fm_py_row *row,
					       uint64_t object, uint32_t max_chars, struct fm_py_string *ret)
{
	uint64_t length;
	uint32_t state;
	ret->kind = 0;
	ret->n_chars = 0;
	ret->data = 0;
	ret->is_ascii = true;
	if (!read(memory, object + row->str_length, &length, sizeof(length)) ||
	    !read(memory, object + row->str_state, &state, sizeof(state)) || !(state & row->str_compact_mask))
		return;
	uint8_t kind = (uint8_t)((state & row->str_kind_mask) >> row->str_kind_shift);
	if (kind != 1 && kind != 2 && kind != 4)
		return;
	ret->is_ascii = state & row->str_ascii_mask;
	ret->data = object + (ret->is_ascii ? row->str_ascii_data : row->str_compact_data);
	ret->n_chars = length < max_chars ? (uint32_t)length : max_chars;
	ret->kind = kind;
}
