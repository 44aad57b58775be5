// Frames to names: (image, address) -> function and library, (code, offset) -> function, file and line.
//
// Works lazily: an image's file is opened when the first frame in it is asked for, each frame is looked up once. One
// thread at a time. Everything handed out lives as long as the symbolizer, which borrows the profile (and so the
// reader). Lines and inlined calls of native code will come from debug information; fm_place has the room for them.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/str.h"
#include "read/reader.h"

struct fm_function {
	uint8_t kind;         // enum fm_frame_kind
	bool is_known;        // false: `name` is an address, of the unnamed function's start where that is known
	bool is_plumbing;     // native code of the interpreter itself
	bool is_library;      // Python: installed or standard library or frozen, not the user's own code
	struct fm_str name;   // "CSSCode.symplectic_product", "cblas_dgemm", "0x1f20"; an error frame's text
	struct fm_str file;   // the source file; "" when unknown
	struct fm_str module; // dotted Python module as far as the path tells, or the library's file name
	struct fm_str path;   // of the library; "" for Python
	uint32_t file_id;     // equal for equal `file`
	uint32_t line;        // where the function begins; 0 = unknown
};

struct fm_place {
	uint32_t function_id; // dense, from 0
	uint32_t line;        // 0 = unknown
};

struct fm_symbolizer;
struct fm_symbolizer *fm_symbolizer_create(const struct fm_profile *profile);
void fm_symbolizer_destroy(struct fm_symbolizer *s); // NULL is fine

struct fm_place fm_symbolizer_place(struct fm_symbolizer *s, uint32_t frame_id);
const struct fm_function *fm_symbolizer_function(const struct fm_symbolizer *s, uint32_t function_id);
uint32_t fm_symbolizer_n_functions(const struct fm_symbolizer *s);

// What could not be named, and why; known for the frames asked for so far.
const struct fm_coverage *fm_symbolizer_coverage(const struct fm_symbolizer *s, size_t *ret_n);
