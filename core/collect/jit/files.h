// SPDX-License-Identifier: Apache-2.0
// The files in which JIT compilers tell of their code, read as they grow: jitdump (found by the
// mapping that its writer must make) and /tmp/perf-PID.map. Both lie in folders where everybody may
// write, so they are believed only when they are regular files of the process's user, or root's,
// that nobody else can write.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "collect/process/file.h"
#include "image/code_ranges.h"
#include "image/jitdump.h"

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
