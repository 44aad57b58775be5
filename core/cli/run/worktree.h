// SPDX-License-Identifier: Apache-2.0
// Another state of the user's git repository, checked out beside it for as long as it is measured.
#pragma once

#include <stddef.h>

#include "base/err.h"

struct fm_worktree {
	char root[4096];   // of the repository's own working tree
	char folder[4200]; // where the other state is; "" = nothing is checked out
	char here[8400];   // in there, what the current folder is in the repository
	char commit[16];   // what the name stands for, short
};

// The repository that the current folder is in: its root. FM_E_NOT_FOUND: it is in none, or there is no git.
FM_MUST_CHECK enum fm_err fm_worktree_root(char *ret, size_t cap, struct fm_diag *diag);
// Checks `ref` out into `folder`, which must not exist yet, with its submodules. On failure nothing
// is left behind.
FM_MUST_CHECK enum fm_err fm_worktree_add(struct fm_worktree *w, const char *ref, const char *folder,
					  struct fm_diag *diag);
// Takes it away, and what git knows of it.
void fm_worktree_remove(struct fm_worktree *w);
