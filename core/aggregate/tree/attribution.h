// SPDX-License-Identifier: Apache-2.0
// Who pays: the Python line that stands for what happens in a place of the tree, and whose code a
// function is. Time and memory are charged by one rule.
#pragma once

#include "aggregate/tree/view.h"
#include "symbolize/symbolize.h"

struct fm_attribution {
	uint32_t own;  // node + 1 of the innermost Python frame; 0 = none
	uint32_t user; // the same, of the user's own code
};

// By node; free() it.
struct fm_attribution *fm_attribution_find(const struct fm_profile *profile, const struct fm_tally *tally,
					   const struct fm_view *view, const struct fm_symbolizer *symbolizer);

// Node + 1 of the line that is charged, 0 = none: libraries are charged to the user's line that
// called them, unless asked for in detail.
static inline uint32_t fm_attribution_line(const struct fm_attribution *payer, bool is_detailed)
{
	return !is_detailed && payer->user ? payer->user : payer->own;
}

// Whose code a function is, as far as its file tells: which package's, the interpreter's, nobody's
// in particular.

// "numpy" for its modules, extensions and bundled libraries; "json" for json.decoder and _json;
// "libz" for a system library. "" for what is nobody's: the C library, the kernel, the interpreter,
// what starts threads and modules. Lives as long as the function.
struct fm_str fm_package_name(const struct fm_function *f);
// Native code of no package and not of the system: the user's own.
bool fm_package_is_none(const struct fm_function *f);
bool fm_package_is_interpreter(const struct fm_function *f);
// importlib, which others call, too, for a part of what it does: py_compile has it write a .pyc file.
bool fm_package_is_importlib(const struct fm_function *f);
// Where it imports a module: what an import begins with, or looks for or runs a module by.
bool fm_package_is_import(const struct fm_function *f);
// Python code that runs before the program's first line.
bool fm_package_is_first(const struct fm_function *f);
// What the compiler makes a function of inside another one: its time is that function's to a
// reader.
bool fm_package_is_comprehension(const struct fm_function *f);

// Where none of the code is the user's by its place, or next to none of the time is its (a
// configuration file, modules that a tool looks at), the program itself is what they run: the
// package behind -m, behind a script of an environment's bin folder, or around a file that was
// named. By function id: whether it is Python code of that package; free() it. NULL when other code
// is the user's, or there is none.
bool *fm_package_find_main(const struct fm_view *view, const struct fm_tally *tally,
			   const struct fm_symbolizer *symbolizer);
