// SPDX-License-Identifier: Apache-2.0
// What a callgrind file adds up to, between its reader (callgrind.c) and the capture
// (callgrind_sums.c).
#pragma once

#include "import/summed.h"

#define FM_NO_LINE UINT32_MAX

// Each has its own numbers for names.
enum fm_callgrind_space { FM_CALLGRIND_OBJECT, FM_CALLGRIND_FILE, FM_CALLGRIND_FUNCTION, FM_N_CALLGRIND_SPACES };

struct fm_callgrind_function {
	uint32_t object, file, name; // texts
	uint32_t first_line;         // FM_NO_LINE: not known
	uint64_t own, of_others;     // of_others: its calls of other functions, inclusively
	uint64_t n_calls, n_self_calls;
};

struct fm_callgrind_line {
	uint32_t function, line;
	uint64_t own;
};

struct fm_callgrind_pair {
	uint32_t caller, callee;
	uint64_t n_calls, inclusive;
};

struct fm_callgrind {
	struct fm_import *in;
	struct fm_intern texts;
	struct fm_map numbers[FM_N_CALLGRIND_SPACES]; // name by its number
	struct fm_intern function_keys, line_keys;
	struct fm_map pair_keys;
	FM_VEC(struct fm_callgrind_function) functions;
	FM_VEC(struct fm_callgrind_line) lines;
	FM_VEC(struct fm_callgrind_pair) pairs;

	struct fm_buf creator, other_events, unit;
	uint64_t scale;  // nanoseconds, or units, in one of the event
	unsigned column; // of the event among the costs
	bool has_events, has_calls_line;
	bool has_instr, has_line; // what a position is made of
	bool has_inlined;

	uint32_t object, file, function; // where the next cost belongs
	uint32_t called_object, called_file, called_function;
	uint64_t instr, line; // the last position
	uint64_t n_calls;     // of the calls line before a cost
	uint32_t target_line;
	uint64_t whole;
	uint32_t thread_id;
};

static inline struct fm_str fm_callgrind_text(const struct fm_callgrind *c, uint32_t id)
{
	return fm_intern_get(&c->texts, id);
}

// Decimal, or hexadecimal with 0x; what follows is left. False: there is no number.
bool fm_callgrind_number(struct fm_str *s, uint64_t *ret);
// Writes everything, and what there is to say of it.
void fm_callgrind_put(struct fm_callgrind *c);
