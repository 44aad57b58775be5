// SPDX-License-Identifier: Apache-2.0
// Whether a thread of another process has room for a script of ours: on its stack, and below its
// recursion limit. What the script raised for want of it would be the program's to get.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/mem.h"

struct fm_remote;
struct fm_remote_pending;

struct fm_remote_range {
	uint64_t start, end;
};

// Where stacks may be: the process's writable memory when it was read.
struct fm_remote_stacks {
	FM_VEC(struct fm_remote_range) ranges;
	uint32_t pid;
};
void fm_remote_stacks_read(struct fm_remote_stacks *s, uint32_t pid);
void fm_remote_stacks_deinit(struct fm_remote_stacks *s);
bool fm_remote_stacks_has_room(const struct fm_remote_stacks *s, uint64_t sp);

// Of every thread that might run the script.
bool fm_remote_has_depth(struct fm_remote *r, const struct fm_remote_pending *p);

// Hooks see the script before it has begun and may raise. Who knows that they do not sets
// FATHOM_AUDIT_HOOKS.
bool fm_remote_has_audit_hooks(struct fm_remote *r, const struct fm_remote_pending *p);
