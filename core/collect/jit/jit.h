// SPDX-License-Identifier: Apache-2.0
// Code that a process makes at run time: which pseudo image its addresses belong to, what they are
// called, and how they are unwound. All of it is done here, from outside, while the process runs:
// reading its maps, its memory (GDB's JIT interface, tables given to __register_frame) and the
// files that compilers write (jitdump, perf map). One fm_jit for each process; one thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "collect/shared/rows.h"
#include "format/writer.h"

struct fm_jit;
struct fm_jit *fm_jit_create(uint32_t pid, uint32_t parent_pid, uint32_t process_idx, uint32_t process_id,
			     struct fm_shared *shared, struct fm_rows *rows, struct fm_writer *writer);
// Names what can still be named (files outlive the process), says what could not, and frees. NULL
// is fine.
void fm_jit_end(struct fm_jit *jit);

// The pseudo image of a pc that is in no image; FM_NO_ID when nothing that can be executed is
// there.
uint32_t fm_jit_image(struct fm_jit *jit, uint64_t pc);

// Call often (after each drain). True when addresses may mean something else from now on.
bool fm_jit_poll(struct fm_jit *jit);
