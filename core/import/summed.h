// SPDX-License-Identifier: Apache-2.0
// Functions of sources that keep sums of calls, and no stacks: pstats, callgrind.
//
// Calls and times go where the table of calls is made from (fm_call_sum). The own time is in samples
// as well, each with its function alone on the stack: so it is in the tables of functions and lines,
// in the page and in diffs.
#pragma once

#include "import/sink.h"

struct fm_summed {
	fm_zone_ref ref; // in sums
	uint32_t stack_id;
	uint8_t class;
};

// A Python function by its names and the line of its def.
struct fm_summed fm_summed_python(struct fm_import *in, struct fm_str name, struct fm_str file, uint32_t line);
// What is no Python code. The name of the call may be another one than that of the frame.
struct fm_summed fm_summed_native(struct fm_import *in, struct fm_str name, struct fm_str library, struct fm_str symbol,
				  struct fm_str file, uint32_t line);

void fm_summed_put(struct fm_import *in, const struct fm_call_sum *sum);
// Own time, as samples of 1 ms; units stand for nanoseconds.
void fm_summed_own(struct fm_import *in, uint32_t thread_id, uint32_t stack_id, uint8_t class, uint64_t own_ns);
// What such a source cannot tell, in coverage.
void fm_summed_missing(struct fm_import *in);
