// SPDX-License-Identifier: Apache-2.0
// What of a Python source has code of its own (functions, classes, lambdas, comprehensions), and
// what is inside what: enough to give a code object the qualified name that interpreters before
// 3.11 do not keep.
//
// No parser: a scan that knows indentation, brackets, strings, continuation lines, decorators,
// lambdas and comprehensions. Any bytes are read to their end in linear time. A source that nests
// deeper than the interpreter's own limits is read up to there.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/str.h"

enum fm_python_scope_kind {
	FM_SCOPE_FUNCTION,
	FM_SCOPE_CLASS,
	FM_SCOPE_LAMBDA,
	FM_SCOPE_COMPREHENSION,
};

struct fm_python_scope {
	uint8_t kind;       // enum fm_python_scope_kind
	uint32_t line;      // as co_firstlineno has it: of the first decorator, if there is one
	uint32_t parent;    // index of the scope around it; FM_NO_SCOPE = the module
	bool is_global;     // declared `global` there: it is called as if it were the module's
	struct fm_str name; // of the text, or "<lambda>", "<listcomp>", ...
};
#define FM_NO_SCOPE UINT32_MAX

// Borrows the text.
struct fm_python_scopes {
	FM_VEC(struct fm_python_scope) items;
	FM_VEC(uint32_t) by_line; // indexes, in order of lines
};
void fm_python_scopes_read(struct fm_python_scopes *s, struct fm_str text);
void fm_python_scopes_deinit(struct fm_python_scopes *s);

// Appends the qualified name of the scope of that name that begins in that line. False, and nothing
// is appended, when there is none, or several whose qualified names differ.
bool fm_python_scopes_qualname(const struct fm_python_scopes *s, uint32_t line, struct fm_str name, struct fm_buf *ret);
