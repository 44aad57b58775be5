// SPDX-License-Identifier: Apache-2.0
// Sampled mappings that are still there. They are few, and a part of one may be unmapped: a list of
// ranges, searched from end to end.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

// More are counted as dropped. Mappings of 256 KiB and more are all sampled, so this is 1 GiB at
// the least.
#define FM_SIG_MAX_MAPS 4096

struct fm_sig_map {
	uint64_t start, end; // end 0 = free
	uint64_t id, weight;
	uint64_t log_id; // struct fm_sig_alloc_thread
};

struct fm_sig_maps {
	_Atomic uint32_t is_locked;
	uint32_t n; // entries that were ever in use
	struct fm_sig_map maps[FM_SIG_MAX_MAPS];
};

// NULL until the agent has mapped it; wiped in a forked child, which did not make these mappings.
extern struct fm_sig_maps *fm_sig_maps;

// Memory was mapped. errno is kept.
void fm_sig_map_added(uintptr_t start, uint64_t size);
// It is about to be unmapped. What is left of a mapping is told of as a new, smaller one.
void fm_sig_map_removed(uintptr_t start, uint64_t size);
// True when a sampled mapping begins before end and ends after start.
bool fm_sig_map_overlaps(uintptr_t start, uint64_t size);
