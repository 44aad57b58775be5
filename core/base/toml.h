// SPDX-License-Identifier: Apache-2.0
// Reads one table of a TOML file: as much of the language as is needed to find the table and its
// plain values, and to pass over everything else without being led astray by what stands in
// strings, arrays and comments.
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

enum fm_toml_kind { FM_TOML_STRING, FM_TOML_NUMBER, FM_TOML_BOOL, FM_TOML_OTHER };

struct fm_toml_value {
	struct fm_str key;
	enum fm_toml_kind kind;
	struct fm_str text; // a string without quotes, its escapes resolved; numbers and booleans as written
	unsigned line;
};

// Calls `each` for the strings of an array (the text of a value of another kind). False: it is
// none, or holds something else.
bool fm_toml_strings(struct fm_str text, void (*each)(void *ctx, struct fm_str item), void *ctx);

// Calls `each` for the keys of [table] ("tool.fathom"), in order. Everything lives until `each`
// returns. Stops when it does not return FM_OK and gives that back. A file that is not TOML gives
// FM_E_CORRUPT with one line in diag that names the line.
FM_MUST_CHECK enum fm_err fm_toml_read(struct fm_str text, const char *table,
				       enum fm_err (*each)(void *ctx, const struct fm_toml_value *value,
							   struct fm_diag *diag),
				       void *ctx, struct fm_diag *diag);
