// SPDX-License-Identifier: Apache-2.0
// Writes JSON as a stream: commas, escapes and nesting are its business, the shape is the caller's.
// Valid whatever the bytes are: undecodable ones become U+FFFD; a number that JSON lacks (NaN,
// infinity) becomes null.
//
//	struct fm_json j;
//	fm_json_init(&j, file);
//	fm_json_object(&j, NULL);
//	fm_json_str(&j, "name", name);
//	fm_json_array(&j, "weights");
//	fm_json_u64(&j, NULL, 12);
//	fm_json_end(&j);
//	fm_json_end(&j);
//
// key is NULL for the outermost value and inside arrays. Write errors stay in the FILE: ask
// ferror() at the end.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

#define FM_JSON_MAX_DEPTH 16 // what our schemas nest, with room

struct fm_json {
	FILE *out;
	unsigned depth;
	char closers[FM_JSON_MAX_DEPTH];
	bool has_items[FM_JSON_MAX_DEPTH + 1];
	bool is_newline_due;
};

void fm_json_init(struct fm_json *j, FILE *out);
void fm_json_object(struct fm_json *j, const char *key);
void fm_json_array(struct fm_json *j, const char *key);
void fm_json_end(struct fm_json *j); // closes the innermost object or array
void fm_json_str(struct fm_json *j, const char *key, struct fm_str value);
void fm_json_u64(struct fm_json *j, const char *key, uint64_t value);
void fm_json_i64(struct fm_json *j, const char *key, int64_t value);
void fm_json_real(struct fm_json *j, const char *key, double value); // nine decimals at most: nanoseconds as seconds
void fm_json_bool(struct fm_json *j, const char *key, bool value);
void fm_json_null(struct fm_json *j, const char *key);
void fm_json_newline(struct fm_json *j); // the next value begins a line, which keeps files fit for line tools

// A finite number as text: nine decimals at most, none that say nothing. Returns its length.
#define FM_REAL_TEXT 400 // the largest double has 309 digits before the point
int fm_real_text(double value, char ret[static FM_REAL_TEXT]);

// The bytes as a JSON string with its quotes.
void fm_json_escape(FILE *out, struct fm_str s);

// Reads JSON into a tree that lives in an arena. For what our own servers answer, so any bytes will
// do and nothing is trusted.
//
//	struct fm_json_value *root;
//	if (fm_json_parse(&arena, text, &root)) ...
//	double share = fm_json_get(root, "share")->number;      // 0 when there is no such number
//	for (struct fm_json_value *v = fm_json_get(root, "rows")->first; v; v = v->next) ...
enum fm_json_kind { FM_JSON_NULL, FM_JSON_BOOL, FM_JSON_NUMBER, FM_JSON_STRING, FM_JSON_ARRAY, FM_JSON_OBJECT };

struct fm_json_value {
	enum fm_json_kind kind;
	bool is_true;
	double number;      // 0 unless it is one
	struct fm_str text; // of a string, in UTF-8; "" unless it is one
	struct fm_str key;  // within an object
	struct fm_json_value *first, *next;
};

#define FM_JSON_READ_DEPTH 32 // deeper nesting is refused: nothing of ours is

// The text and the arena must outlive the tree. FM_E_CORRUPT: not JSON.
FM_MUST_CHECK enum fm_err fm_json_parse(struct fm_arena *arena, struct fm_str text, struct fm_json_value **ret);
// The member of that name. A null value when there is none, or when v is no object: never NULL.
const struct fm_json_value *fm_json_get(const struct fm_json_value *v, const char *key);
