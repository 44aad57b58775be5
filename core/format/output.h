// An append-only file that never keeps half a piece: what cannot be written whole is cut off again.
// Used by one thread at a time.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct fm_output {
	int fd;
	char *path;
	uint64_t offset;  // end of the last whole piece
	enum fm_err err;  // sticky: the first failure stays, later appends do nothing
	int system_errno; // why
};

FM_MUST_CHECK enum fm_err fm_output_open(struct fm_output *out, const char *path, struct fm_diag *diag);
enum fm_err fm_output_append(struct fm_output *out, const void *p, size_t len);
// Closes and releases; the sticky error, with its line in diag.
enum fm_err fm_output_close(struct fm_output *out, struct fm_diag *diag);
