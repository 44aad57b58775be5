// SPDX-License-Identifier: Apache-2.0
// Where an output goes: a file of the user's, private to them, or standard output.
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"

struct fm_destination {
	FILE *file;
	const char *path;      // as people know it
	bool is_ours;          // to be closed
	bool is_fresh_regular; // to be removed when writing fails
};

// path NULL or "-" is standard output. Refuses to write over the profile that is shown.
FM_MUST_CHECK enum fm_err fm_destination_open(const char *path, const char *profile_path, struct fm_destination *ret,
					      struct fm_diag *diag);
// Gives err back, or why writing failed. A half-written file of ours is removed.
FM_MUST_CHECK enum fm_err fm_destination_close(struct fm_destination *out, enum fm_err err, struct fm_diag *diag);
