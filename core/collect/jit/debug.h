// SPDX-License-Identifier: Apache-2.0
// Sampled addresses of run-time code whose compiler gave debug information: each becomes a chain of
// functions, the inlined ones inside, with files and lines. Walking debug information takes time,
// so addresses wait until some are together; none waits longer than its object.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "format/writer.h"
#include "image/jit_elf.h"

struct fm_jit_debug_object {
	uint32_t owner;
	uint64_t n_bytes;
	struct fm_jit_debug *debug;
};

struct fm_jit_wanted {
	uint64_t pc;
	uint32_t owner, image_id;
	struct fm_str name; // of its function, as the linker knows it
};

struct fm_jit_debugs {
	struct fm_writer *writer;
	FM_VEC(struct fm_jit_debug_object) objects;
	FM_VEC(struct fm_jit_wanted) wanted;
	uint64_t n_bytes;      // of all objects
	uint64_t next_name_ns; // not before
	uint32_t n_left_out;   // objects beyond what is kept
};
void fm_jit_debugs_deinit(struct fm_jit_debugs *d);

// Takes over elf (malloc), which is an object that fm_jit_elf_read() has read.
void fm_jit_debugs_add(struct fm_jit_debugs *d, uint32_t owner, uint8_t *elf, size_t len);
// Names what waits for the object, and forgets it.
void fm_jit_debugs_remove(struct fm_jit_debugs *d, uint32_t owner);

// False: the object has no debug information, and nobody will name the address. The name is
// borrowed until it was written.
bool fm_jit_debugs_want(struct fm_jit_debugs *d, uint32_t owner, uint64_t pc, uint32_t image_id, struct fm_str name);
// Names what waits, if it is time.
void fm_jit_debugs_name(struct fm_jit_debugs *d, bool is_last);
