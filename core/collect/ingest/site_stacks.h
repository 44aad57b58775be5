// SPDX-License-Identifier: Apache-2.0
// Stacks of exact mode's sites, kept until their process has ended. Only then is it known which of
// them are worth a place in the file: a program that imports a library has tens of thousands of
// stacks that made one object each.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/str.h"

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
