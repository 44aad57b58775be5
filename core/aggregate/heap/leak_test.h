// SPDX-License-Identifier: Apache-2.0
// Is what a place allocates ever given back? A judgement over births and deaths of its blocks;
// docs/memory-math.md has the reasons. Pure arithmetic.
#pragma once

#include <stddef.h>

struct fm_leak_block {
	double born_s, freed_s; // INFINITY = not freed
	double weight, size;    // bytes
	double n;               // how many blocks it stands for in the question how many were freed
};

struct fm_leak_verdict {
	double likelihood;                    // posterior mean of "a block that grew old here is never freed"
	double velocity, velocity_plus_minus; // bytes/s
	double bytes;                         // live at the end; of a leak, those that are old enough to count
	double min_age_s;                     // how old a block must be to count as a survivor
};

enum fm_leak_answer {
	FM_LEAK_NO,        // the data do not bear the claim
	FM_LEAK_YES,       // every field of the verdict is there
	FM_LEAK_TOO_SHORT, // grew to the end of a run that is too short to tell; bytes alone is there
	FM_LEAK_TOO_FEW,   // the same, of fewer blocks than can prove anything
	FM_LEAK_NO_BLOCKS, // the same, of sums: what was freed may be what was just made, or what was old
	FM_LEAK_MAPPINGS,  // not an answer of the test: what grew are mappings that no Python line asked for
};

// Runs shorter than this tell nothing.
#define FM_LEAK_MIN_RUN_S 5.0
// Slower growth is not worth a line: half a MiB a minute.
#define FM_LEAK_MIN_VELOCITY (524288.0 / 60)
// What held less at the end is not worth a doubt.
#define FM_LEAK_MIN_DOUBT_BYTES 1e6
// Of shorter runs nothing is said at all: a script that makes its data and ends.
#define FM_LEAK_MIN_DOUBT_RUN_S 1.0

// blocks were born between begin_s and end_s; frees after end_s count as none.
enum fm_leak_answer fm_leak_test(const struct fm_leak_block *blocks, size_t n, double begin_s, double end_s,
				 struct fm_leak_verdict *ret);

// For blocks that were made up from sums, and that the test did not find to leak.
enum fm_leak_answer fm_leak_doubt_sums(const struct fm_leak_block *blocks, size_t n, double begin_s, double end_s,
				       struct fm_leak_verdict *ret);

// A list or dictionary that outgrows its room moves to a larger block: the bytes that it had live
// on there. Makes them do so, in blocks in order of their birth.
void fm_leak_join_moved(struct fm_leak_block *blocks, size_t n);
