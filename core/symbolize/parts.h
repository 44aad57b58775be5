// SPDX-License-Identifier: Apache-2.0
// What symbolize.c asks: the native side, what a linker's name means, system calls, and what would
// help. Inside this room only.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/str.h"
#include "read/reader.h"
#include "symbolize/chains.h"

// The native side of the symbolizer: every image of a profile, resolved when its first frame is
// asked for, all its sampled addresses at once. Inside this room only.
struct fm_native;
struct fm_native *fm_native_create(const struct fm_profile *profile);
void fm_native_destroy(struct fm_native *n); // NULL is fine

// The chains of the image; borrowed. An address that is not among them has no name.
const struct fm_chains *fm_native_chains(struct fm_native *n, uint32_t image_id);

// What could not be named, and why, of the images asked for so far.
const struct fm_coverage *fm_native_coverage(const struct fm_native *n, size_t *ret_n);

// What would help with the names and lines of the file at this path, when the reason is known and
// is not that it has none. NULL otherwise.
const char *fm_native_remedy(const struct fm_native *n, struct fm_str path);

// What a linker's name means to a person: C++, Rust (legacy and v0), Cython and PyO3 wrappers.
// Pure; any bytes will do.
struct fm_pretty {
	struct fm_str name; // for tables: no parameters, long template arguments as <...>
	struct fm_str full; // whole: parameters and template arguments; the symbol itself for Cython
};

// Results live in the arena. Parts that the compiler split off a function (.cold, .isra.0) carry
// the name of the function they came from; hashes that tell copies of a Rust function apart are
// left out.
struct fm_pretty fm_demangle(struct fm_arena *arena, struct fm_str symbol);

// The name with every template argument list of more than max_list characters as <...>. Operators
// (<, <<, ->, <=>) and the <T as Trait> of Rust keep their meaning.
struct fm_str fm_demangle_shorten(struct fm_arena *arena, struct fm_str name, unsigned max_list);

// The Python names in what Cython generates.

// Appends "numpy.random._mt19937.MT19937.jumped (Cython)" for
// __pyx_pw_5numpy_6random_8_mt19937_7MT19937_5jumped. False:
// no name of Cython's, or none that says whose it is; nothing was appended.
bool fm_cython_name(struct fm_buf *b, struct fm_str symbol);

// Names of Linux's system calls on x86-64.

// "read" for 0; NULL for a number that is none, or newer than this build.
const char *fm_x86_syscall_name(uint64_t number);

// What a user can do about a library whose functions or lines are unknown: one line.

// The folder that packages are installed into, with its last slash, and the path below it. False: it lies in none.
bool fm_distribution_split(struct fm_str path, struct fm_str *ret_folder, struct fm_str *ret_below);
// The name by which pip knows what installed this file: "scikit-learn" for site-packages/sklearn/... By the lists of
// files that installers leave beside it; false: there is none that has it.
bool fm_distribution_of(struct fm_str path, char *ret, size_t cap);

// Looks at the path, and asks the package manager whose it is where that helps (dpkg, at most a
// second in all).
struct fm_str fm_remedy(struct fm_arena *arena, struct fm_str library_path);
