// SPDX-License-Identifier: Apache-2.0
// Where CPython keeps a frame's local variables, and their names.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "pyabi/row.h"

struct fm_py_locals {
	uint16_t frame_values; // an array in the frame: arguments, locals, cells
	uint16_t code_names;   // a tuple: of all of these from 3.11 on, of arguments and locals before
	uint16_t tuple_items;  // in any tuple, as a list's and a tuple's length is in size
	uint16_t size;
	bool is_tagged; // values are references with low bits that are no address's (3.14+)
};

static inline struct fm_py_locals fm_py_locals_of(const struct fm_py_row *row)
{
	// Builds without a GIL have longer heads.
	uint16_t more = row->is_free_threaded ? 16 : 0;
	// From 3.14 on a tuple keeps its hash before its items.
	uint16_t items = row->minor >= 14 ? 32 : 24;
	struct fm_py_locals l = { .tuple_items = (uint16_t)(items + more), .size = (uint16_t)(16 + more) };
	if (row->frames <= FM_PY_FRAMES_OBJECTS_CFRAME) {
		l.frame_values = row->minor == 10 ? 352 : 360;
		l.code_names = 72;
	} else {
		// They begin behind the byte that tells the owner, at the next whole word.
		l.frame_values = (uint16_t)((row->frame_owner + 1 + 7) & ~7);
		l.code_names = (uint16_t)(96 + more);
	}
	l.is_tagged = row->minor >= 14;
	return l;
}
