// SPDX-License-Identifier: Apache-2.0
// The tables of a profile, filled record by record. Any bytes leave them consistent: every id
// inside is in range, every stack's parent is older than it. What a lost chunk should have defined
// is a placeholder: "" for strings, the frame "lost in a damaged part of the profile", process and
// thread with number 0.
#pragma once

#include <stdint.h>

#include "base/cursor.h"
#include "base/hash.h"
#include "read/reader.h"

struct fm_tables {
	struct fm_profile profile;
	struct fm_arena arena;
	FM_VEC(struct fm_str) strings;
	uint64_t n_holes;                          // placeholders made so far
	struct fm_map meta_ids;                    // hash of key -> meta; a taken hash moves on by one
	uint64_t charged_bytes, max_charged_bytes; // as below; the limit is the reader's to set
	struct fm_map site_ids; // hash of (process, stack, domain) -> site; a taken hash moves on by one
};

void fm_tables_init(struct fm_tables *t);
void fm_tables_deinit(struct fm_tables *t);
// Takes in one record that is not samples. Unknown types are passed over. FM_E_CORRUPT and
// FM_E_TRUNCATED: impossible content. FM_E_TOO_LARGE: the limit is reached.
FM_MUST_CHECK enum fm_err fm_tables_record(struct fm_tables *t, uint64_t type, struct fm_cursor *body);

// So much more was taken. FM_E_TOO_LARGE: the limit is reached.
FM_MUST_CHECK enum fm_err fm_tables_charge(struct fm_tables *t, uint64_t bytes);

// Make an id valid that a sample names. False: it cannot be (and is counted).
bool fm_tables_need_thread(struct fm_tables *t, uint32_t thread_id);
bool fm_tables_need_stack(struct fm_tables *t, uint32_t stack_id);

// What a reader takes of one file. Captures come from strangers, too, and zstd makes megabytes of a
// hundred bytes: without these, 200 kB become as many gigabytes as their writer likes. Beyond them
// reading stops, what was read stays, and the profile's line on damage says why.
//
// Each limit grows with the bytes of the file that were read, so that no honest capture meets it
// however long it is. Measured per byte of the file: unpacked 1 to 8 bytes, charged 17 for a trace
// of one call over and over, 32 for a log of one allocation over and over; and a small file has the
// floor besides.
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
#define FM_READ_FLOOR_BYTES ((uint64_t)8 << 20) // or a single input takes a second
#else
#define FM_READ_FLOOR_BYTES ((uint64_t)256 << 20)
#endif

// Unpacked bytes: what it costs to look at them.
#define FM_READ_UNPACKED_RATIO 1024u
// Charged bytes: what is kept of them, here and by those who count and draw.
#define FM_READ_CHARGED_RATIO 128u

// What one of each is charged with beside its own size and text.
#define FM_READ_RECORD_CHARGE 8u
#define FM_READ_STACK_CHARGE 32u  // a node in every tree that is made of them
#define FM_READ_THREAD_CHARGE 512 // a row, a history over time
#define FM_READ_SAMPLE_CHARGE 16u
#define FM_READ_MEMORY_EVENT_CHARGE 64u // a block while it lives
#define FM_READ_TRACE_EVENT_CHARGE 8u

// Facts about the whole capture, and what it did not see: a few dozen of each are known, and all
// are shown.
#define FM_READ_MAX_METAS 4096u
#define FM_READ_MAX_COVERAGES 1024u
