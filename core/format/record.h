// SPDX-License-Identifier: Apache-2.0
// The records inside a chunk: what each is made of, and the encoding and decoding of ONE of it.
// docs/format.md has the tables.
//
// A record is {varint type, varint length, body}. Tables (strings, images, codes, frames, stacks)
// come as batches that state the id of their first entry, so that a lost chunk leaves a hole in the
// ids and shifts nothing. Samples have their own file, samples.h.
#pragma once

#include <stdint.h>

#include "base/cursor.h"
#include "base/str.h"

enum fm_record_type {
	FM_RECORD_STRINGS = 1,
	FM_RECORD_IMAGES = 2,
	FM_RECORD_CODES = 3,
	FM_RECORD_FRAMES = 4,
	FM_RECORD_STACKS = 5,
	FM_RECORD_SAMPLES = 6,
	FM_RECORD_META = 7,
	FM_RECORD_COVERAGE = 8,
	FM_RECORD_PROCESS = 9, // again for the same id: replaces what was said
	FM_RECORD_PROCESS_END = 10,
	FM_RECORD_THREAD = 11,
	FM_RECORD_THREAD_NAME = 12,
	FM_RECORD_THREAD_END = 13,
	FM_RECORD_MAPPING = 14,
	FM_RECORD_SOURCE = 15,
	FM_RECORD_SYMBOL = 16,
	FM_RECORD_ALLOCS = 17,
	FM_RECORD_FREES = 18,
	// 19 is free.
	FM_RECORD_MEMORY_LEVEL = 20,
	FM_RECORD_ALLOC_TYPE = 21,
	FM_RECORD_SITES = 22, // sites.h
	FM_RECORD_SITE_HISTORY = 23,
	FM_RECORD_ALLOC_TOUCHED = 24,
	// 25 to 31: memory, too. 32 to 47: traces.
	FM_RECORD_TRACE_NAMES = 32,
	FM_RECORD_TRACE = 33, // zones.h
	FM_RECORD_CALL_SUM = 34,
};

// Entries that every file has without saying so. They are what a hole in a table looks like to a
// reader.
#define FM_FRAME_LOST 0u // { FM_FRAME_ERROR, 0, FM_STACK_LOST }
#define FM_FIRST_STRING 1u
#define FM_FIRST_FRAME 1u
#define FM_FIRST_STACK 1u // stack 0 is the empty stack

// Whole records. out grows by one record: head, then body (body may be NULL with body_len 0).
void fm_record_put(struct fm_buf *out, enum fm_record_type type, const struct fm_buf *head, const void *body,
		   size_t body_len);
// Next record of a chunk's raw bytes, as a cursor over its body.
FM_MUST_CHECK enum fm_err fm_record_next(struct fm_cursor *chunk, uint64_t *ret_type, struct fm_cursor *ret_body);

// A length and the bytes; fm_cursor_str() reads it.
void fm_record_put_str(struct fm_buf *out, struct fm_str s);

// The head of a table's batch: entries first_id, first_id + 1, ... follow.
struct fm_record_batch {
	uint32_t first_id, n;
};
void fm_record_put_batch(struct fm_buf *out, struct fm_record_batch batch);
FM_MUST_CHECK enum fm_err fm_record_get_batch(struct fm_cursor *c, struct fm_record_batch *ret);

// An id that has to fit 32 bits.
uint32_t fm_record_get_id(struct fm_cursor *c);

// One entry of each table. Strings are ids of the string table except where the type says fm_str.
// The get functions leave failure in the cursor.
struct fm_record_image {
	uint32_t path;
	struct fm_str build_id; // raw bytes
	uint32_t flags;
};
void fm_record_put_image(struct fm_buf *out, const struct fm_record_image *image);
struct fm_record_image fm_record_get_image(struct fm_cursor *c);

struct fm_record_code {
	uint32_t name, qualname, filename, first_line;
	uint8_t line_table_kind;
	struct fm_str line_table;
};
void fm_record_put_code(struct fm_buf *out, const struct fm_record_code *code);
struct fm_record_code fm_record_get_code(struct fm_cursor *c);

struct fm_record_frame {
	uint8_t kind;
	uint32_t ref; // FM_NO_ID is coded as 0, other ids as id + 1
	uint64_t value;
};
void fm_record_put_frame(struct fm_buf *out, const struct fm_record_frame *frame);
struct fm_record_frame fm_record_get_frame(struct fm_cursor *c);

// One function of what an address means; a symbol record is {image, address, n, n of these},
// outermost first.
struct fm_record_link {
	uint32_t name, file, first_line, line;
	bool is_inlined;
};
void fm_record_put_link(struct fm_buf *out, const struct fm_record_link *link);
struct fm_record_link fm_record_get_link(struct fm_cursor *c);

// New stacks mostly hang below the one made just before them, and use frames made just before: both
// are coded as distances.
struct fm_record_stack {
	uint32_t parent, frame_id;
};
void fm_record_put_stack(struct fm_buf *out, uint32_t own_id, uint32_t previous_frame,
			 const struct fm_record_stack *stack);
struct fm_record_stack fm_record_get_stack(struct fm_cursor *c, uint32_t own_id, uint32_t previous_frame);
