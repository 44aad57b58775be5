// SPDX-License-Identifier: Apache-2.0
// What a process needs of ours to load the agent, where it can reach it: the agent's file, scripts
// and their answers, the shared memory. For one of our own that sees our files that is a folder for
// temporary files and nothing else. For one of another user (we being root), or with other file
// systems mounted, the folder lies in its own, belongs to its user alone, and has a copy of the
// agent if it cannot read ours; and a process of its user, which does nothing else, holds the shared
// memory open where it may look.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/err.h"

struct fm_reach {
	uint32_t pid;
	int dir_fd;           // the folder, as we open it; -1 = none
	int parent_fd;        // and what it is in
	char dir[400];        // as the process calls it; CPython takes paths of up to 511 bytes
	const char *dir_name; // in parent_fd
	char agent[4096];     // as the process calls it
	uid_t uid;
	gid_t gid;
	bool is_other_user;
	bool has_copy; // of the agent, in the folder
	pid_t holder;  // of the shared memory; 0 = none
	int holder_fd; // it ends when this is closed
};

// agent: ours. FM_E_REFUSED: diag says what stands against it.
FM_MUST_CHECK enum fm_err fm_reach_open(struct fm_reach *r, uint32_t pid, const char *agent, struct fm_diag *diag);
void fm_reach_close(struct fm_reach *r);

// The path of the shared memory as the process can open it, ours being ring_path. False: it cannot.
bool fm_reach_ring(struct fm_reach *r, const char *ring_path, char *ret, size_t cap);

// A file of the folder that the process may read: NULL = it cannot be made.
FILE *fm_reach_write(const struct fm_reach *r, const char *name);
// Takes a file that the process has left away, and reads it, ended by a 0. False: there is none.
bool fm_reach_take(const struct fm_reach *r, const char *name, char *ret, size_t cap);
void fm_reach_remove(const struct fm_reach *r, const char *name);
