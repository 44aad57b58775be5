// SPDX-License-Identifier: Apache-2.0
// How the live bytes of exact mode's sites went over time: what the collector saw of them, some 64
// to 128 times however long the program ran. From this come a line's timeline and what looks like a
// leak, without a log of events.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"
#include "format/writer.h"
#include "wire/exact.h"

#define FM_COURSE_LOOKS 128
// Sites that ever hold as much are followed, the first so many of a process: 2 KiB of ours each.
#define FM_COURSE_MIN_BYTES 4096u
#define FM_COURSE_MAX 4096u

struct fm_course {
	uint32_t site;
	uint32_t first; // look from which it was followed
	uint64_t alloc_bytes[FM_COURSE_LOOKS], live_bytes[FM_COURSE_LOOKS];
};

struct fm_histories {
	uint32_t n_looks, stride, n_skipped; // every stride-th look is kept
	uint64_t look_ns[FM_COURSE_LOOKS];
	FM_VEC(struct fm_course) histories;
	FM_VEC(uint32_t) of_site; // place among histories + 1
};
void fm_histories_deinit(struct fm_histories *c);

// One look at n sites. is_last: it is kept whatever the stride.
void fm_histories_look(struct fm_histories *c, const struct fm_wire_site *sites, uint32_t n, uint64_t now_ns,
		       bool is_last);
// Adds a site's course, if it has one, to that of a stack, which has FM_COURSE_LOOKS points from
// look 0 on. False: it has none.
bool fm_histories_add(const struct fm_histories *c, uint32_t site, struct fm_history_point *to);
