// SPDX-License-Identifier: Apache-2.0
// JSON of any size, front to back in bounded memory: the caller walks down, and what it does not
// ask for is passed over.
//
//	struct fm_str key;
//	fm_json_in_init(&j, in->input);
//	if (fm_json_in_object(&j))
//		while (fm_json_in_key(&j, &key)) {
//			if (!fm_str_eq(key, FM_STR_LIT("samples")))
//				fm_json_in_skip(&j);
//			else if (fm_json_in_array(&j))
//				while (fm_json_in_item(&j))
//					sum += fm_json_in_real(&j);
//		}
//	err = fm_json_in_end(&j, in);
//
// After a key and after an item stands one value, which the caller takes: enters it, reads it or
// skips it. Something of another kind is passed over and gives false, 0 or "". Damage ends every
// loop. Strings live until the next call of the same function.
#pragma once

#include "import/sink.h"

// Deeper nesting is damage: no profile's is, but for recursion in trees of calls.
#define FM_JSON_IN_MAX_DEPTH 1024

struct fm_json_in {
	struct fm_input *input;
	const uint8_t *base, *p, *end; // of the input's window
	unsigned depth;
	uint64_t is_first[FM_JSON_IN_MAX_DEPTH / 64], is_array[FM_JSON_IN_MAX_DEPTH / 64];
	struct fm_buf key, text;
	const char *error;
};

// For who recognises a format: whether a file begins as an object does, and has a text in sight.
bool fm_json_in_is_object(const uint8_t *head, size_t n);
bool fm_json_in_has(const uint8_t *head, size_t n, const char *text);

void fm_json_in_init(struct fm_json_in *j, struct fm_input *input); // where the input is
void fm_json_in_deinit(struct fm_json_in *j);
// FM_OK, or a line in in->diag that says at which byte the JSON is damaged.
enum fm_err fm_json_in_end(struct fm_json_in *j, struct fm_import *in);
// What the caller finds wrong here, as the end of a sentence: the first one counts, and ends every loop.
void fm_json_in_fail(struct fm_json_in *j, const char *error);

// The first character of the value that follows, '0' for every number; 0 = there is none.
char fm_json_in_kind(struct fm_json_in *j);
bool fm_json_in_object(struct fm_json_in *j);                  // enters it
bool fm_json_in_key(struct fm_json_in *j, struct fm_str *ret); // the next member; false: left it
bool fm_json_in_array(struct fm_json_in *j);
bool fm_json_in_item(struct fm_json_in *j);
void fm_json_in_leave(struct fm_json_in *j); // passes over the rest of the innermost one that was entered
void fm_json_in_skip(struct fm_json_in *j);

struct fm_str fm_json_in_str(struct fm_json_in *j);
double fm_json_in_real(struct fm_json_in *j);
// A whole number, rounded where it has a fraction; one that does not fit is the nearest that does.
int64_t fm_json_in_int(struct fm_json_in *j);
// The same, or `none` for null and everything else that is no number.
int64_t fm_json_in_int_or(struct fm_json_in *j, int64_t none);
bool fm_json_in_bool(struct fm_json_in *j);
