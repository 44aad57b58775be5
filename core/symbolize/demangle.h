// SPDX-License-Identifier: Apache-2.0
// What a linker's name means to a person: C++, Rust (legacy and v0), Cython and PyO3 wrappers.
// Pure; any bytes will do.
#pragma once

#include "base/mem.h"
#include "base/str.h"

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
