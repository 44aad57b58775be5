// SPDX-License-Identifier: Apache-2.0
// What a file's name means to a person. Pure; results live in the arena or are literals.
#pragma once

#include <stdbool.h>

#include "base/mem.h"
#include "base/str.h"
#include "read/reader.h"

// "json.encoder" for .../lib/python3.11/json/encoder.py; the stem of any other file; "numpy" for a
// package's __init__.py.
struct fm_str fm_name_module(struct fm_arena *arena, struct fm_str filename);

// Files of Fathom's own package that run inside the target: start-up files, what runs notebooks,
// scripts and jobs, the plugin of pytest. Nobody's lines, and folded away wherever stacks are shown
// (aggregate/tree/view.h).
bool fm_name_is_ours(struct fm_str filename);

// Installed packages, the standard library, frozen modules, and what is ours.
bool fm_name_is_library(struct fm_str filename);

// Libraries that everybody calls, the C library first: they work for the one behind them.
bool fm_name_is_go_between(struct fm_str path);

// The name without "[abi:...]" parts: numba tells its copies of a function apart by them.
struct fm_str fm_name_without_tags(struct fm_arena *arena, struct fm_str name);

// The part after the last slash.
// True when the library is Fathom's agent, by its name.
bool fm_name_is_agent(struct fm_str path);
struct fm_str fm_name_base(struct fm_str path);

// What a code object is called: "Class.method" also where the interpreter (up to 3.10) kept "method"
// alone, as the capture's sources tell.
struct fm_qualnames;
// Borrows the profile, which may grow.
struct fm_qualnames *fm_qualnames_create(const struct fm_profile *profile);
void fm_qualnames_destroy(struct fm_qualnames *q); // NULL is fine

// Lives as long as q and the profile. Its plain name where the source is not there or has no such
// definition; "[unnamed]" without one.
struct fm_str fm_qualnames_of(struct fm_qualnames *q, const struct fm_code_info *code);
