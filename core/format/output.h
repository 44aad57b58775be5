// SPDX-License-Identifier: Apache-2.0
// An append-only file that never keeps half a piece: what cannot be written whole is cut off again.
// Used by one thread at a time.
//
// It is ours while it is open: locked, so that a second writer is refused before it destroys
// anything, and looked at before each piece, so that what somebody else does to it is found out.
// Writing on would then damage what is theirs, or go where nobody finds it.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct fm_output {
	int fd;
	char *path;
	bool is_regular;  // a file, and no pipe or device: nobody else has a say in these
	bool has_name;    // in a folder, when it was opened
	uint64_t offset;  // end of the last whole piece
	enum fm_err err;  // sticky: the first failure stays, later appends do nothing. FM_E_NOT_FOUND: it is lost, by
			  // what somebody else did
	int system_errno; // why, of FM_E_IO
	bool was_removed;
	uint64_t found_bytes; // the file's length then
};

// FM_E_REFUSED: somebody writes to it at the moment. The file is as it was then.
FM_MUST_CHECK enum fm_err fm_output_open(struct fm_output *out, const char *path, struct fm_diag *diag);
enum fm_err fm_output_append(struct fm_output *out, const void *p, size_t len);
// What went wrong and what is left, in one line; after an error only.
void fm_output_describe(const struct fm_output *out, struct fm_diag *diag);
// The file was renamed, and is whole: its name now. False when it is where it was.
bool fm_output_has_moved(const struct fm_output *out, char *ret, size_t cap);
// Closes and releases; the sticky error, with its line in diag.
enum fm_err fm_output_close(struct fm_output *out, struct fm_diag *diag);

// Takes the lock of an output file, for as long as it is open; says who may not. True also where
// there are no locks.
bool fm_output_lock(int fd, const char *path, struct fm_diag *diag);
