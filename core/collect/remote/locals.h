// SPDX-License-Identifier: Apache-2.0
// The local variables of another process's frames, as short texts. Read where the stack was read,
// right after it: the thread must not have run meanwhile. What they hold is read as far as it can
// be told without running any of the program's code: numbers, strings, how long containers are, and
// the type of everything.
#pragma once

#include <stdint.h>

#include "base/mem.h"
#include "collect/remote/remote.h"

#define FM_LOCAL_MAX_CHARS 60u // of a string

struct fm_local {
	uint32_t tid;
	uint32_t frame;   // of the thread's Python frames, 0 = innermost
	const char *text; // "name=value"
	const char *type;
};

struct fm_locals {
	FM_VEC(struct fm_local) items; // of one thread and frame: in the order in which the function has them
	struct fm_arena arena;
};

void fm_locals_init(struct fm_locals *l);
void fm_locals_deinit(struct fm_locals *l);

// Of the stack that fm_remote_read_stack() read last; tid is whose it is to be. Replaces what is
// there of that thread.
void fm_remote_read_locals(struct fm_remote *r, uint32_t tid, struct fm_locals *to);
