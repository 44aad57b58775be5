// SPDX-License-Identifier: Apache-2.0
// Exact mode's sites: their stacks, and how their live bytes went over time.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/str.h"
#include "format/writer.h"
#include "wire/exact.h"

// Stacks of exact mode's sites, kept until their process has ended. Only then is it known which of
// them are worth a place in the file: a program that imports a library has tens of thousands of
// stacks that made one object each.

// A tree: a stack is its caller's and one more frame. Node 0 is the empty stack; parents come
// before children.
struct fm_site_node {
	uint64_t frame; // as in a ring
	uint32_t parent;
	uint32_t stack_id1;                // of the file, plus 1; 0 = it is not there
	uint64_t bytes, n_allocs, at_most; // of all sites in it or below it; the sum of their peaks
	uint64_t time_ns;                  // when it was first seen
};

struct fm_site_stacks {
	FM_VEC(struct fm_site_node) nodes;
	struct fm_map ids; // by parent and frame
};
void fm_site_stacks_deinit(struct fm_site_stacks *s);

// The node of a stack, outermost frame first.
uint32_t fm_site_stacks_add(struct fm_site_stacks *s, const uint64_t *frames, size_t n, uint64_t time_ns);

// Adds a site's sums to its node and all that lead to it.
void fm_site_stacks_count(struct fm_site_stacks *s, uint32_t node, uint64_t bytes, uint64_t n_allocs,
			  uint64_t peak_bytes);
// Where a site is to stand in the file: its own node, or the innermost on the way to it that is
// worth it: below which there is a 1000th part of all (by bytes, number or peak), or a frame for
// which is_always() says so.
uint32_t fm_site_stacks_cut(const struct fm_site_stacks *s, uint32_t node,
			    bool (*is_always)(const void *arg, uint64_t frame), const void *arg);

// How the live bytes of exact mode's sites went over time: what the collector saw of them, some 64
// to 128 times however long the program ran. From this come a line's timeline and what looks like a
// leak, without a log of events.
#define FM_HISTORY_LOOKS 128
// Sites that ever hold as much are followed, the first so many of a process: 2 KiB of ours each.
#define FM_HISTORY_MIN_BYTES 4096u
#define FM_HISTORY_MAX 4096u

struct fm_history {
	uint32_t site;
	uint32_t first; // look from which it was followed
	uint64_t alloc_bytes[FM_HISTORY_LOOKS], live_bytes[FM_HISTORY_LOOKS];
};

struct fm_histories {
	uint32_t n_looks, stride, n_skipped; // every stride-th look is kept
	uint64_t look_ns[FM_HISTORY_LOOKS];
	FM_VEC(struct fm_history) histories;
	FM_VEC(uint32_t) of_site; // place among histories + 1
};
void fm_histories_deinit(struct fm_histories *c);

// One look at n sites. is_last: it is kept whatever the stride.
void fm_histories_look(struct fm_histories *c, const struct fm_wire_site *sites, uint32_t n, uint64_t now_ns,
		       bool is_last);
// Adds a site's history, if it has one, to that of a stack, which has FM_HISTORY_LOOKS points from
// look 0 on. False: it has none.
bool fm_histories_add(const struct fm_histories *c, uint32_t site, struct fm_history_point *to);
