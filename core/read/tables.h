// SPDX-License-Identifier: Apache-2.0
// The tables of a profile, filled record by record. Any bytes leave them consistent: every id
// inside is in range, every stack's parent is older than it. What a lost chunk should have defined
// is a placeholder: "" for strings, the frame "lost in a damaged part of the profile", process and
// thread with number 0.
#pragma once

#include "base/cursor.h"
#include "base/hash.h"
#include "read/reader.h"

struct fm_tables {
	struct fm_profile profile;
	struct fm_arena arena;
	FM_VEC(struct fm_str) strings;
	uint64_t n_holes;                          // placeholders made so far
	struct fm_map meta_ids;                    // hash of key -> meta; a taken hash moves on by one
	uint64_t charged_bytes, max_charged_bytes; // read/limits.h; the limit is the reader's to set
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
