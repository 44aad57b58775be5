// SPDX-License-Identifier: Apache-2.0
// Frames to names: (image, address) -> function and library, (code, offset) -> function, file and
// line.
//
// Works lazily: an image is resolved (all its sampled addresses at once) when the first frame in it
// is asked for. One thread at a time. Everything handed out lives as long as the symbolizer, which
// borrows the profile (and so the reader), except where said otherwise.
//
// One native frame may stand for several functions: those that the compiler inlined have no frame
// of their own. Each is a place, so a sample's innermost place is the function whose code ran.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/str.h"
#include "read/reader.h"

struct fm_function {
	uint8_t kind;  // enum fm_frame_kind
	bool is_known; // false: `name` is an address, of the unnamed function's start where that is known, with a guess
	bool is_plumbing;   // native code of the interpreter itself
	bool is_library;    // Python: installed or standard library or frozen, not the user's own code
	bool is_ours;       // Python: a file of Fathom's own package; is_library, too
	bool is_workers;    // native: stands for the threads that work for its caller (FM_FRAME_WORKERS); of no library
	struct fm_str name; // "CSSCode.symplectic_product", "cblas_dgemm", "libz.so.1+0x4970 (near deflate?)"; an error
			    // frame's text
	struct fm_str full_name; // with parameters and template arguments, where `name` leaves them out
	struct fm_str file;      // the source file; "" when unknown
	struct fm_str module;    // dotted Python module as far as the path tells, or the library's file name
	struct fm_str path;      // of the library; "" for Python
	uint32_t file_id;        // equal for equal `file`
	uint32_t library_id;     // equal for equal `path`, dense from 0; FM_NO_ID unless native
	uint32_t line;           // where the function begins; 0 = unknown
};

struct fm_place {
	uint32_t function_id; // dense, from 0
	uint32_t line;        // 0 = unknown; below 2^31
	bool is_inlined;      // into the place before it
};

struct fm_symbolizer;
struct fm_symbolizer *fm_symbolizer_create(const struct fm_profile *profile, bool fold_inlines);
void fm_symbolizer_destroy(struct fm_symbolizer *s); // NULL is fine

// The frame's functions, outermost first; at least one. With fold_inlines exactly one. Valid until
// the next call.
const struct fm_place *fm_symbolizer_places(struct fm_symbolizer *s, uint32_t frame_id, uint32_t *ret_n);
const struct fm_function *fm_symbolizer_function(const struct fm_symbolizer *s, uint32_t function_id);
// The function of a code object of the profile, whether a frame names it or not. May be a new one.
uint32_t fm_symbolizer_code(struct fm_symbolizer *s, uint32_t code_id);
// The function that stands for Fathom's own Python code, where that is folded: "[fathom]", without
// a file. May be a new one.
uint32_t fm_symbolizer_ours(struct fm_symbolizer *s);
uint32_t fm_symbolizer_n_functions(const struct fm_symbolizer *s);

// What could not be named, and why; known for the frames asked for so far.
const struct fm_coverage *fm_symbolizer_coverage(const struct fm_symbolizer *s, size_t *ret_n);

// The libraries of the native functions so far, by library_id.
uint32_t fm_symbolizer_n_libraries(const struct fm_symbolizer *s);
struct fm_str fm_symbolizer_library(const struct fm_symbolizer *s, uint32_t library_id);
// What would help with a library's missing names or lines: one line.
struct fm_str fm_symbolizer_remedy(const struct fm_symbolizer *s, uint32_t library_id, struct fm_arena *arena);
