// SPDX-License-Identifier: Apache-2.0
// Reads JSON into a tree that lives in an arena. For what our own servers answer, so any bytes will
// do and nothing is trusted.
//
//	struct fm_json_value *root;
//	if (fm_json_parse(&arena, text, &root)) ...
//	double share = fm_json_get(root, "share")->number;      // 0 when there is no such number
//	for (struct fm_json_value *v = fm_json_get(root, "rows")->first; v; v = v->next) ...
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

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
