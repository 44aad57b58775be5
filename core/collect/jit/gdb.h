// SPDX-License-Identifier: Apache-2.0
// GDB's JIT interface: a list of in-memory ELF objects, which a library of the process keeps in
// __jit_debug_descriptor.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "collect/jit/code.h"
#include "collect/jit/debug.h"
#include "image/code_ranges.h"

struct fm_jit_object {
	uint64_t entry, addr, size, hash;
	uint32_t owner;
	bool is_there;
};

struct fm_jit_gdb {
	uint64_t descriptor; // where it is in the process
	uint8_t last[24];    // as it was read last
	uint64_t look_ns;
	uint32_t n_skipped; // looks since the list was walked
	FM_VEC(struct fm_jit_object) objects;
};
void fm_jit_gdb_deinit(struct fm_jit_gdb *g);

struct fm_jit_gdb_result {
	bool is_removed;    // code has gone: its addresses may mean something else from now on
	uint32_t n_damaged; // objects that could not be read
};
// Walks the list if it has changed. *next_owner numbers objects.
void fm_jit_gdb_look(struct fm_jit_gdb *g, uint32_t pid, uint32_t *next_owner, struct fm_code_ranges *ranges,
		     struct fm_jit_debugs *debugs, struct fm_jit_code *code, struct fm_jit_gdb_result *ret);
