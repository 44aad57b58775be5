// SPDX-License-Identifier: Apache-2.0
// The strings of a bundle: each once, always decodable, none longer than a page can show. Names
// come from foreign memory and damaged files: a name of a megabyte is cut, and the rest of it stays
// out.
#pragma once

#include "base/hash.h"
#include "render/bundle/columns.h"

#define FM_STRING_NAME_BYTES 1024u // longer names are cut, with an ellipsis at their end

struct fm_string_table {
	struct fm_intern ids; // 0 is ""
	size_t n_bytes, max_bytes;
	uint64_t n_left_out; // strings that found no room; they are ""
};

void fm_string_table_init(struct fm_string_table *t, size_t max_bytes);
void fm_string_table_deinit(struct fm_string_table *t);
uint32_t fm_string_table_name(struct fm_string_table *t, struct fm_str s);
// A whole text of at most max_bytes, or 0: half a source file is worse than none.
uint32_t fm_string_table_whole(struct fm_string_table *t, struct fm_str s, size_t max_bytes);
// string.bytes and string.offset.
void fm_string_table_columns(const struct fm_string_table *t, struct fm_columns *c);
