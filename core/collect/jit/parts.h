// SPDX-License-Identifier: Apache-2.0
// Between the parts of jit: unwind rows, debug information, the files of compilers, and GDB's
// interface.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "collect/process/file.h"
#include "collect/shared/rows.h"
#include "format/writer.h"
#include "image/code_ranges.h"
#include "image/jit.h"

// The unwind rows of one process's run-time code: gathered from all who tell of them, published as
// a few large tables.

// A stretch of memory that can be executed and is no image.
struct fm_jit_area {
	uint64_t start, end;
};

struct fm_jit_table {
	uint64_t key; // who told; unique
	struct fm_jit_rows rows;
};

struct fm_jit_code {
	FM_VEC(struct fm_jit_table) tables;
	FM_VEC(struct fm_jit_area) areas;
	bool is_changed; // since they were published
	uint64_t published_ns;
	uint32_t epoch;
};
void fm_jit_code_deinit(struct fm_jit_code *c);

// Takes the rows over. What had the same key before goes.
void fm_jit_code_add(struct fm_jit_code *c, uint64_t key, struct fm_jit_rows *rows);
void fm_jit_code_remove(struct fm_jit_code *c, uint64_t key);
// True when rows other than guessed ones are known for the address.
bool fm_jit_code_has(const struct fm_jit_code *c, uint64_t addr);

// Publishes what has changed, at most every so often when there is much of it.
void fm_jit_code_publish(struct fm_jit_code *c, struct fm_rows *rows, uint32_t process_idx);

// Sampled addresses of run-time code whose compiler gave debug information: each becomes a chain of
// functions, the inlined ones inside, with files and lines. Walking debug information takes time,
// so addresses wait until some are together; none waits longer than its object.
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

// The files in which JIT compilers tell of their code, read as they grow: jitdump (found by the
// mapping that its writer must make) and /tmp/perf-PID.map. Both lie in folders where everybody may
// write, so they are believed only when they are regular files of the process's user, or root's,
// that nobody else can write.
struct fm_jit_files {
	uint32_t pid, parent_pid, own_pid;
	struct fm_rights rights; // as last seen
	int dump_fd, map_fd;
	uint64_t dump_off, map_off;
	bool is_dump_damaged;
	bool is_map_inherited; // a forked child's code is in its parent's map
	struct fm_jitdump dump;
	uint32_t n_damaged;
	char refused_path[64];   // of the last that was not believed, cut off
	const char *refused_why; // NULL = none
};
void fm_jit_files_init(struct fm_jit_files *f, uint32_t pid, uint32_t parent_pid);
void fm_jit_files_deinit(struct fm_jit_files *f);

// True when an executable mapping is of a jitdump; the file is kept open.
bool fm_jit_files_take_map(struct fm_jit_files *f, const char *path);

// Read what is new. True when some of it lies where other code was before.
bool fm_jit_files_read_dump(struct fm_jit_files *f, uint32_t owner, struct fm_code_ranges *ranges,
			    fm_jitdump_unwind_fn unwind, void *ctx);
bool fm_jit_files_read_map(struct fm_jit_files *f, uint32_t owner, struct fm_code_ranges *ranges);

// GDB's JIT interface: a list of in-memory ELF objects, which a library of the process keeps in
// __jit_debug_descriptor.
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
