// SPDX-License-Identifier: Apache-2.0
// Whose files are believed: those of one user and of root, as long as nobody else can write to
// them. And files that are for their owner only: whatever Fathom writes may hold command lines and
// sources, so it is made as private as perf.data is, and the umask can only narrow that.
#pragma once

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/err.h"

// NULL when a file or folder is `user`'s or root's, and nobody else's to change; otherwise what
// speaks against it, as the end of a sentence: "belongs to another user", "can be written by
// others". The sticky bit does not help: it keeps others from removing a file, not from making it
// first. A group counts as others unless it has the user's own number (a private group).
const char *fm_distrust(const struct stat *st, uid_t user);

// Opens a file to read it if it is a regular one (a fifo cannot keep us waiting) and no symbolic
// link, and fm_distrust has nothing to say. Otherwise -1, with errno if it cannot be opened or 0
// and *ret_why.
int fm_open_believed(const char *path, uid_t user, const char **ret_why);
// The same for what open() gave, with FM_OPEN_BELIEVED: a descriptor that is not believed is closed.
#define FM_OPEN_BELIEVED (O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)
int fm_believe(int fd, uid_t user, const char **ret_why);

#define FM_PRIVATE_FILE 0600
#define FM_PRIVATE_FOLDER 0700

// fopen(path, "w") or, is_append, "a"; a file that is not there yet becomes a private one.
FILE *fm_fopen_private(const char *path, bool is_append);
// Makes an empty private file in TMPDIR; ret is its path. The caller removes it.
FM_MUST_CHECK enum fm_err fm_temporary_make(char *ret, size_t cap, struct fm_diag *diag);
