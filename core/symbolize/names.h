// What a file's name means to a person. Pure; results live in the arena or are literals.
#pragma once

#include <stdbool.h>

#include "base/mem.h"
#include "base/str.h"

// "json.encoder" for .../lib/python3.11/json/encoder.py; the stem of any other file; "numpy" for a package's
// __init__.py.
struct fm_str fm_name_module(struct fm_arena *arena, struct fm_str filename);

// Installed packages, the standard library and frozen modules.
bool fm_name_is_library(struct fm_str filename);

// The name without "[abi:...]" parts: numba tells its copies of a function apart by them.
struct fm_str fm_name_without_tags(struct fm_arena *arena, struct fm_str name);

// The part after the last slash.
struct fm_str fm_name_base(struct fm_str path);
