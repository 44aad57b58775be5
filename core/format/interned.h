// SPDX-License-Identifier: Apache-2.0
// What a file says once and then refers to by id: strings, images, codes, frames, stacks, names of
// traces. Gives out the ids, and keeps the entries that wait for the next chunk.
//
// Part of the writer (writer.h), which checks that what an entry refers to is there. Equal entries
// have equal ids.
#pragma once

#include <stdint.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/str.h"
#include "format/facts.h"
#include "format/model.h"
#include "format/record.h"

// Entries of one table that wait for the next chunk.
struct fm_interned_table {
	struct fm_buf body;
	uint32_t n;         // ids given out
	uint32_t n_pending; // of these, not yet written
};

struct fm_interned {
	struct fm_interned_table strings, images, codes, frames, stacks, trace_names;
	size_t pending_bytes; // of all tables

	struct fm_intern string_ids;
	struct fm_intern image_keys; // path id and build id
	FM_VEC(uint32_t) image_flags;
	struct fm_intern code_keys; // the encoded entry
	struct fm_intern trace_name_keys;
	struct fm_map frame_ids; // hash of the frame -> id; a taken hash moves on by one
	FM_VEC(struct fm_record_frame) frame_items;
	struct fm_map stack_ids; // parent << 32 | frame
	uint32_t last_stack_frame;

	struct fm_buf scratch;
};
void fm_interned_init(struct fm_interned *in);
void fm_interned_deinit(struct fm_interned *in);

uint32_t fm_interned_string(struct fm_interned *in, struct fm_str s);
uint32_t fm_interned_image(struct fm_interned *in, const struct fm_record_image *image);
uint32_t fm_interned_code(struct fm_interned *in, const struct fm_record_code *code);
uint32_t fm_interned_frame(struct fm_interned *in, const struct fm_record_frame *frame);
uint32_t fm_interned_stack(struct fm_interned *in, const struct fm_record_stack *stack);
uint32_t fm_interned_trace_name(struct fm_interned *in, const struct fm_fact_trace_name *name);

// Appends what waits to a chunk's raw bytes, as records: each table after those that it refers to.
void fm_interned_put(struct fm_interned *in, struct fm_buf *raw);
